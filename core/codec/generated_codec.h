// SPDX-License-Identifier: Apache-2.0
//
// What all codecs made from CompLL programs have in common. The rest of each is generated.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "core/codec/registry.h"
#include "core/codec/summed_encoding.h"
#include "core/codec/text/options.h"

namespace hipress {

/// What a program says about itself. `fingerprint` is empty for codecs that come with HiPress.
struct GeneratedCodecInterface {
  std::string name;
  CodecId id = 0;
  std::string summary;
  std::vector<CodecOption> options;
  std::vector<std::string> states;
  std::string fingerprint;
};

/// The description, with the option error_feedback if there are states; a program may have declared it
/// itself.
CodecDescription describeGenerated(const GeneratedCodecInterface& face);

/// Elements are counted in int32.
inline constexpr size_t kMostElements = 2147483647;

class GeneratedCodec : public Codec {
 public:
  /// `values` are the options' values, in the order of `face.options`. Both the gradient's scale and the
  /// states are as codec.h says; `keepsStates` is the option error_feedback.
  GeneratedCodec(const GeneratedCodecInterface& face, const CodecOptions& values, bool keepsStates);

  std::string_view name() const override { return face_.name; }
  std::string signature() const override { return signature_; }
  CodecId id() const override { return face_.id; }
  std::span<const std::string> states() const override;
  size_t maxEncodedBytes(size_t count) const override;
  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override;

  /// The values of the program's parameters, in its order, as its functions on other devices take them.
  virtual std::vector<double> parameters() const = 0;

 protected:
  /// Of one element or more, as many as the language counts at most.
  virtual size_t bound(size_t count) const = 0;
  virtual size_t encodeValues(std::span<const float> input, const EncodeStates& states,
                              const EncodeContext& context, Bytes output) const = 0;

  /// Throws InvalidArgument if there are more elements than the language counts.
  void checkCount(size_t count) const;
  [[noreturn]] void refuse(const std::string& reason) const;  ///< CorruptPayload
  [[noreturn]] void wrong(
      const std::string& reason) const;  ///< InvalidArgument: the program does what it must not

 private:
  const GeneratedCodecInterface& face_;
  std::string signature_;
  bool keepsStates_;
};

/// The values an option may have.
struct Interval {
  double low;
  double high;
  bool lowOpen;
  bool highOpen;
};
using OneOf = std::initializer_list<double>;

/// The value, if it is allowed; otherwise throws InvalidArgument with what is.
double checkedOption(const CodecOptions& options, const std::string& option, double value);
double checkedOption(const CodecOptions& options, const std::string& option, double value,
                     const Interval& interval);
double checkedOption(const CodecOptions& options, const std::string& option, double value, OneOf values);

}  // namespace hipress
