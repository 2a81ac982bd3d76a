// SPDX-License-Identifier: Apache-2.0
//
// The part that all codecs generated from CompLL programs share. The rest is generated.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "core/codec/registry.h"
#include "core/codec/summed_encoding.h"
#include "core/codec/text/options.h"

namespace hipress {

/// A program's description of itself. `fingerprint` is empty for codecs that come with HiPress.
struct GeneratedCodecInterface {
  std::string name;
  CodecId id = 0;
  std::string summary;
  std::vector<CodecOption> options;
  std::vector<CodecState> states;
  std::string fingerprint;
};

/// Returns the description. Adds the options that the program does not declare itself: error_feedback if it
/// has states; residual_factor and gradient_factor if one of them is called residual.
CodecDescription describeGenerated(const GeneratedCodecInterface& face);

/// Generated code counts elements in int32.
inline constexpr size_t kMostElements = 2147483647;

class GeneratedCodec : public Codec {
 public:
  /// `values` are the values of the options, in the order of `face.options`. codec.h defines the scale and
  /// the states. `keepsStates` is the value of the option error_feedback.
  GeneratedCodec(const GeneratedCodecInterface& face, const CodecOptions& values, bool keepsStates);

  std::string_view name() const override { return face_.name; }
  std::string signature() const override { return signature_; }
  CodecId id() const override { return face_.id; }
  std::span<const CodecState> states() const override;
  size_t maxEncodedBytes(size_t count) const override;
  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override;

  /// The values of the program's parameters in the program's order, for its functions on other devices.
  virtual std::vector<double> parameters() const = 0;

 protected:
  /// maxEncodedBytes() for 1 to kMostElements elements.
  virtual size_t bound(size_t count) const = 0;
  virtual size_t encodeValues(std::span<const float> input, const EncodeStates& states,
                              const EncodeContext& context, Bytes output) const = 0;

  /// Throws InvalidArgument for more than kMostElements elements.
  void checkCount(size_t count) const;
  [[noreturn]] void refuse(const std::string& reason) const;  ///< throws CorruptPayload
  [[noreturn]] void wrong(
      const std::string& reason) const;  ///< throws InvalidArgument: the program broke a rule of encode

 private:
  const GeneratedCodecInterface& face_;
  std::string signature_;
  bool keepsStates_;
};

/// The allowed values of an option, as an interval.
struct Interval {
  double low;
  double high;
  bool lowOpen;
  bool highOpen;
};
using OneOf = std::initializer_list<double>;

/// Returns the value if it is allowed. Otherwise throws InvalidArgument with the allowed values.
double checkedOption(const CodecOptions& options, const std::string& option, double value);
double checkedOption(const CodecOptions& options, const std::string& option, double value,
                     const Interval& interval);
double checkedOption(const CodecOptions& options, const std::string& option, double value, OneOf values);

/// Returns the value of a factor that the program does not declare. Throws InvalidArgument if it is not in
/// the interval, and for another value than 1 of a codec that keeps no residual.
double checkedFactor(const CodecOptions& options, const std::string& option, const Interval& interval);

}  // namespace hipress
