// SPDX-License-Identifier: Apache-2.0
//
// Clang's thread-safety annotations. They say which mutex guards a member and which functions need the mutex,
// and `make lint` checks them. For other compilers they are empty.
#pragma once

#if defined(__clang__)
#define HIPRESS_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define HIPRESS_THREAD_ANNOTATION(annotation)
#endif

#define HIPRESS_CAPABILITY(kind) HIPRESS_THREAD_ANNOTATION(capability(kind))
#define HIPRESS_SCOPED_CAPABILITY HIPRESS_THREAD_ANNOTATION(scoped_lockable)
/// Code may use the member only while it holds the mutex.
#define HIPRESS_GUARDED_BY(mutex) HIPRESS_THREAD_ANNOTATION(guarded_by(mutex))
/// The caller of the function holds the mutex.
#define HIPRESS_REQUIRES(...) HIPRESS_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// The caller of the function does not hold the mutex, because the function locks it.
#define HIPRESS_EXCLUDES(...) HIPRESS_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define HIPRESS_ACQUIRE(...) HIPRESS_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HIPRESS_TRY_ACQUIRE(...) HIPRESS_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define HIPRESS_RELEASE(...) HIPRESS_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define HIPRESS_RETURN_CAPABILITY(mutex) HIPRESS_THREAD_ANNOTATION(lock_returned(mutex))
/// For the few functions whose locks the analysis cannot follow.
#define HIPRESS_NO_THREAD_SAFETY_ANALYSIS HIPRESS_THREAD_ANNOTATION(no_thread_safety_analysis)
