#include "proxy/config/model/log_format.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

namespace {

constexpr std::array<std::string_view, 2> kWords = {"default", "json"};  // in the order of LogFormat::Kind

bool is_of_response(const TextTemplate::Piece& piece) { return piece.variable == TextVariable::kResponseHeader; }

}  // namespace

absl::StatusOr<LogFormat> LogFormat::parse(std::string_view text) {
  LogFormat format;
  if (const auto* const word = std::find(kWords.begin(), kWords.end(), text); word != kWords.end()) {
    format.kind_ = static_cast<Kind>(word - kWords.begin());
    return format;
  }
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a text of at most ", kMaxBytes, " bytes, got ", text.size()));
  }
  absl::StatusOr<TextTemplate> line = TextTemplate::parse(text, TextScope::kLog);
  if (!line.ok()) return line.status();
  if (!line->has_variables()) {
    return absl::InvalidArgumentError(absl::StrCat("expected default, json, or a text with variables such as ",
                                                   in_quotes("%{client_ip} %{status}"), ", got ", in_quotes(text),
                                                   did_you_mean(text, kWords)));
  }
  const std::vector<TextTemplate::Piece>& pieces = line->pieces();
  if (std::count_if(pieces.begin(), pieces.end(), is_of_response) > static_cast<ptrdiff_t>(kMaxResponseFields)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMaxResponseFields, " variables %{response_header:NAME}"));
  }
  format.kind_ = Kind::kText;
  format.line_ = *std::move(line);
  return format;
}

bool LogFormat::uses_response_fields() const {
  return std::any_of(line_.pieces().begin(), line_.pieces().end(), is_of_response);
}

std::string_view LogFormat::text() const {
  return kind_ == Kind::kText ? std::string_view(line_.text()) : kWords[static_cast<size_t>(kind_)];
}

}  // namespace sluice::config
