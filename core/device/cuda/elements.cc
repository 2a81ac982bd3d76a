// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/elements.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/device/cuda/element_kernels.h"
#include "core/element/choose_fold.h"

namespace hipress::cuda {
namespace {

const char* nameOf(Combination combination) {
  switch (combination) {
    case Combination::kSum:
      return "sum";
    case Combination::kMin:
      return "min";
    case Combination::kMax:
      return "max";
    case Combination::kProduct:
      return "product";
  }
  return "unknown";
}

const char* typeOf(Combination combination) {
  switch (combination) {
    case Combination::kSum:
      return "Plus";
    case Combination::kMin:
      return "Least";
    case Combination::kMax:
      return "Greatest";
    case Combination::kProduct:
      return "Times";
  }
  return "unknown";
}

/// The type's name in the text of the kernels.
std::string conversionType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "Native<float>";
    case DType::kFloat64:
      return "Native<double>";
    case DType::kFloat16:
      return "Float16";
    default:
      return "Bfloat16";
  }
}

bool isScaled(DType dtype, double factor) {
  return !isFloatingPoint(dtype) && dtype != DType::kBool && factor != 1.0;
}

/// The name, in the text of the kernels, of the fold that withFold() chooses.
std::string foldType(Combination combination, DType dtype, double factor) {
  const std::string combine = std::string(", ") + typeOf(combination) + ">";
  switch (dtype) {
    case DType::kFloat32:
      return "FloatFold<float" + combine;
    case DType::kFloat64:
      return "FloatFold<double" + combine;
    case DType::kFloat16:
      return "HalfFold<Float16" + combine;
    case DType::kBFloat16:
      return "HalfFold<Bfloat16" + combine;
    case DType::kBool:
      return std::string("BoolFold<") + typeOf(combination) + ">";
    default:
      return (isScaled(dtype, factor) ? "ScaledIntegerFold<" : "ExactFold<") + std::string(dtypeName(dtype)) +
             "_t" + combine;
  }
}

std::string mergeSymbol(Combination combination, DType dtype, double factor) {
  return std::string(nameOf(combination)) + "_" + std::string(dtypeName(dtype)) +
         (isScaled(dtype, factor) ? "_scaled" : "");
}

std::string kernel(const std::string& symbol, const std::string& type) {
  return "HIPRESS_KERNEL(" + symbol + ", hipress::cuda::" + type + ")\n";
}

constexpr const char* kInclude =
    "#include \"core/device/cuda/element_kernels.h\"\nusing namespace hipress;\n";

struct Merge {
  std::string symbol;
  std::span<const void* const> contributions;
  size_t count;
  void* output;
  void* scratch;
  Stream stream;

  template <typename Policy>
  void with(Policy policy) const {
    using Kernel = Reduce<Policy>;
    Kernel kernel{policy, {}, 0, count, nullptr, nullptr, static_cast<typename Kernel::Element*>(output)};
    for (size_t first = 0; first < contributions.size(); first += kernel.number) {
      kernel.number = static_cast<unsigned>(std::min(kMostContributions, contributions.size() - first));
      for (unsigned k = 0; k < kernel.number; ++k) {
        kernel.contributions[k] = static_cast<const typename Kernel::Element*>(contributions[first + k]);
      }
      const bool last = first + kernel.number == contributions.size();
      kernel.before = first == 0 ? nullptr : static_cast<typename Kernel::Sum*>(scratch);
      kernel.sums = last ? nullptr : static_cast<typename Kernel::Sum*>(scratch);
      launch(stream, symbol.c_str(), gridFor(count), kernel);
    }
  }
};

/// Calls use(type) with the type that stands for `dtype`.
template <typename Use>
void withFloatingPoint(DType dtype, Use use) {
  switch (dtype) {
    case DType::kFloat32:
      return use(Native<float>{});
    case DType::kFloat64:
      return use(Native<double>{});
    case DType::kFloat16:
      return use(Float16{});
    case DType::kBFloat16:
      return use(Bfloat16{});
    default:
      throw unsupported("conversion between float32 and " + std::string(dtypeName(dtype)) +
                        ": only float16, bfloat16, float32 and float64 tensors can be converted");
  }
}

}  // namespace

ElementKernels mergeKernels(Combination combination, DType dtype, double factor) {
  const std::string symbol = mergeSymbol(combination, dtype, factor);
  return {"merge " + symbol,
          kInclude + kernel(symbol, "Reduce<" + foldType(combination, dtype, factor) + ">")};
}

ElementKernels conversionKernels(DType dtype) {
  withFloatingPoint(dtype, [](auto) {});
  const std::string name(dtypeName(dtype));
  const std::string type = conversionType(dtype);
  return {"conversion of " + name, kInclude + kernel("assign_" + name, "Add<" + type + ", false>") +
                                       kernel("accumulate_" + name, "Add<" + type + ", true>") +
                                       kernel("narrow_" + name, "Narrow<" + type + ">") +
                                       kernel("flag_" + name, "FlagNotFinite<" + type + ">")};
}

ElementKernels copyingKernels() {
  return {"copies", kInclude + kernel("copy_unless_zero", "CopyUnlessZero") + kernel("rescale", "Rescale") +
                        kernel("copy_bytes", "CopyBytes")};
}

ElementKernels summedKernels() {
  return {"sums of levels", "#include \"core/device/cuda/summed_kernels.h\"\nusing namespace hipress;\n" +
                                kernel("poison", "Poison") + kernel("count_not_finite", "CountNotFinite") +
                                kernel("settle_levels", "SettleLevels") + kernel("settle_sum", "SettleSum")};
}

ElementKernels slotKernels() {
  return {"slots", "#include \"core/device/cuda/slot_kernels.h\"\nusing namespace hipress;\n" +
                       kernel("find_nonzero", "FindNonzero") + kernel("find_not_finite", "FindNotFinite") +
                       kernel("fill_unless_zero", "FillUnlessZero") + kernel("seal_slots", "SealSlots") +
                       kernel("check_slots", "CheckSlots") + kernel("restore_slots", "RestoreSlots")};
}

size_t combineScratchBytes(size_t contributions, size_t count) {
  // uint64_t is the largest type of a sum.
  return contributions <= kMostContributions ? 0 : count * sizeof(uint64_t);
}

void combineInOrder(Combination combination, DType dtype, std::span<const void* const> contributions,
                    size_t count, double factor, void* output, void* scratch, Stream stream) {
  if (count == 0) return;
  const Merge merge{mergeSymbol(combination, dtype, factor), contributions, count, output, scratch, stream};
  withFold(combination, dtype, factor, [&](auto policy) { merge.with(policy); });
}

void add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum,
         Stream stream) {
  withFloatingPoint(dtype, [&]<typename Type>(Type) {
    const auto* from = static_cast<const typename Type::Element*>(values);
    const unsigned blocks = gridFor(sum.size());
    if (sum.empty()) return;
    const std::string type(dtypeName(dtype));
    if (mode == DecodeMode::kAssign) {
      launch(stream, ("assign_" + type).c_str(), blocks,
             Add<Type, false>{from, factor, sum.data(), sum.size()});
    } else {
      launch(stream, ("accumulate_" + type).c_str(), blocks,
             Add<Type, true>{from, factor, sum.data(), sum.size()});
    }
  });
}

void narrow(std::span<const float> values, DType dtype, void* output, Stream stream) {
  withFloatingPoint(dtype, [&]<typename Type>(Type) {
    if (values.empty()) return;
    auto* const to = static_cast<typename Type::Element*>(output);
    launch(stream, ("narrow_" + std::string(dtypeName(dtype))).c_str(), gridFor(values.size()),
           Narrow<Type>{values.data(), to, values.size()});
  });
}

void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag, Stream stream) {
  withFloatingPoint(dtype, [&]<typename Type>(Type) {
    if (count == 0) return;
    launch(stream, ("flag_" + std::string(dtypeName(dtype))).c_str(), gridFor(count),
           FlagNotFinite<Type>{static_cast<const typename Type::Element*>(values), count, flag});
  });
}

void rescale(std::span<const std::span<float>> values, const float* now, const float* before, Stream stream) {
  for (size_t first = 0; first < values.size(); first += kMostSpans) {
    const auto some = values.subspan(first, std::min<size_t>(kMostSpans, values.size() - first));
    Rescale kernel{{}, now, before};
    for (size_t span = 0; span < some.size(); ++span)
      kernel.spans[span] = {some[span].data(), some[span].size()};
    launch(stream, "rescale", static_cast<unsigned>(some.size()) * kSpanBlocks, kernel);
  }
}

void copyBytes(std::byte* to, std::span<const std::byte> from, Stream stream) {
  if (from.empty()) return;
  launch(
      stream, "copy_bytes", gridFor(from.size(), CopyBytes::kEach),
      CopyBytes{reinterpret_cast<const uint8_t*>(from.data()), reinterpret_cast<uint8_t*>(to), from.size()});
}

void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to, Stream stream) {
  if (values.empty()) return;
  launch(stream, "copy_unless_zero", gridFor(values.size()),
         CopyUnlessZero{word, values.data(), to, values.size()});
}

}  // namespace hipress::cuda
