// Envoy's command operators (`%REQ(X-A)%`) as the variables of Sluice's texts (`%{header:x-a}`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::envoy {

/// Where a text is used: lines of the access log have more variables.
enum class TextUse : uint8_t { kHeader, kAccessLog };

/// A translated text, or the operators that have no counterpart.
struct TranslatedText {
  std::string text;
  std::string unknown;   ///< The first operator without a counterpart; empty if all have one.
  bool inexact = false;  ///< Whether an operator has another unit or form here.
};

TranslatedText translate_text(std::string_view format, TextUse use);

}  // namespace sluice::envoy
