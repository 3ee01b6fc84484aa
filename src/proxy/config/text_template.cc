#include "proxy/config/text_template.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/config/field_name.h"
#include "proxy/config/words.h"

namespace sluice::config {
namespace {

// In the order of TextVariable, from kClientIp on.
constexpr std::string_view kNames[] = {"client_ip", "host",  "authority",   "method",
                                       "path",      "query", "scheme",      "protocol",
                                       "listener",  "peer",  "tls_version", "tls_server_name"};
constexpr std::string_view kHeaderPrefix = "header:";

// What may stand in a field's value (RFC 9110 section 5.5).
bool is_field_text(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= ' ' && c != '\x7f') || c == '\t' || static_cast<unsigned char>(c) >= 0x80;
  };
  return std::all_of(text.begin(), text.end(), fits);
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

absl::StatusOr<TextTemplate::Piece> parse_variable(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) {
    return TextTemplate::Piece{static_cast<TextVariable>(found - std::begin(kNames) + 1), ""};
  }
  if (std::string_view field = name; absl::ConsumePrefix(&field, kHeaderPrefix)) {
    absl::StatusOr<FieldName> parsed = FieldName::parse(field);
    if (!parsed.ok()) return parsed.status();
    return TextTemplate::Piece{TextVariable::kHeader, parsed->text()};
  }
  const std::optional<std::string_view> guess = nearest(name, {std::begin(kNames), std::end(kNames)});
  std::string known;
  for (const std::string_view each : kNames) absl::StrAppend(&known, each, ", ");
  return absl::InvalidArgumentError(absl::StrCat("there is no variable ", in_quotes(name),
                                                 guess ? absl::StrCat("; did you mean %{", *guess, "}?")
                                                       : absl::StrCat("; the variables are ", known, "header:NAME")));
}

}  // namespace

bool TextTemplate::has_variables() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return piece.variable != TextVariable::kNone; });
}

absl::StatusOr<TextTemplate> TextTemplate::parse(std::string_view text) {
  const auto expected = [all = text](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", got ", in_quotes(all)));
  };
  if (!is_field_text(text)) return expected("a text without control characters");
  if (!text.empty() && (is_blank(text.front()) || is_blank(text.back()))) {
    return expected("a text without blanks at its ends");
  }
  TextTemplate parsed;
  parsed.text_ = std::string(text);
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) parsed.pieces_.push_back({TextVariable::kNone, std::exchange(plain, {})});
  };
  while (!text.empty()) {
    const size_t percent = std::min(text.find('%'), text.size());
    plain.append(text.substr(0, percent));
    text.remove_prefix(percent);
    if (text.empty()) break;
    if (absl::ConsumePrefix(&text, "%%")) {
      plain += '%';
      continue;
    }
    const size_t brace = text.find('}');
    if (!text.starts_with("%{") || brace == std::string_view::npos) {
      return expected("%{VARIABLE}, or %% for a percent sign");
    }
    absl::StatusOr<Piece> piece = parse_variable(text.substr(2, brace - 2));
    if (!piece.ok()) return piece.status();
    end_plain();
    parsed.pieces_.push_back(*std::move(piece));
    text.remove_prefix(brace + 1);
  }
  end_plain();
  return parsed;
}

}  // namespace sluice::config
