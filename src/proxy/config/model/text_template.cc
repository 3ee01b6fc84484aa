#include "proxy/config/model/text_template.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/field_name.h"

namespace sluice::config {
namespace {

// kRequestNames is in the order of TextVariable from kClientIp on, and kLogNames from kTarget on.
constexpr std::string_view kRequestNames[] = {
    "client_ip", "host", "authority",   "method",          "path",       "query",   "scheme", "protocol",
    "listener",  "peer", "tls_version", "tls_server_name", "request_id", "trace_id"};
constexpr std::string_view kLogNames[] = {
    "target",      "time",     "clf_time",          "status",           "reason",
    "detail",      "duration", "upstream_duration", "bytes_in",         "bytes_out",
    "route",       "upstream", "endpoint",          "attempts",         "tls_cipher",
    "client_port", "user",     "grpc_status",       "connect_duration", "bytes_pinned"};
constexpr std::string_view kHeaderPrefix = "header:", kResponseHeaderPrefix = "response_header:";

std::optional<TextVariable> find_name(std::string_view name, std::span<const std::string_view> names,
                                      TextVariable first) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<TextVariable>(static_cast<ptrdiff_t>(first) + (found - names.begin()));
}

// Whether a field value may contain `text` (RFC 9110 section 5.5).
bool is_field_text(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= ' ' && c != '\x7f') || c == '\t' || static_cast<unsigned char>(c) >= 0x80;
  };
  return std::all_of(text.begin(), text.end(), fits);
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

absl::StatusOr<TextTemplate::Piece> parse_field(TextVariable variable, std::string_view name) {
  absl::StatusOr<FieldName> parsed = FieldName::parse(name);
  if (!parsed.ok()) return parsed.status();
  return TextTemplate::Piece{variable, parsed->text()};
}

absl::Status no_such_variable(std::string_view name, TextScope scope) {
  std::vector<std::string_view> known(std::begin(kRequestNames), std::end(kRequestNames));
  if (scope == TextScope::kLog) known.insert(known.end(), std::begin(kLogNames), std::end(kLogNames));
  const std::optional<std::string_view> guess = nearest(name, known);
  known.push_back("header:NAME");
  if (scope == TextScope::kLog) known.push_back("response_header:NAME");
  return absl::InvalidArgumentError(
      absl::StrCat("there is no variable ", in_quotes(name),
                   guess ? absl::StrCat("; did you mean %{", *guess, "}?")
                         : absl::StrCat("; the variables are ", absl::StrJoin(known, ", "))));
}

constexpr TextVariable kOfConnections[] = {
    TextVariable::kClientIp,   TextVariable::kClientPort, TextVariable::kListener,      TextVariable::kProtocol,
    TextVariable::kTlsVersion, TextVariable::kTlsCipher,  TextVariable::kTlsServerName, TextVariable::kTime,
    TextVariable::kClfTime,    TextVariable::kReason,     TextVariable::kDuration,      TextVariable::kConnectDuration,
    TextVariable::kBytesIn,    TextVariable::kBytesOut,   TextVariable::kRoute,         TextVariable::kUpstream,
    TextVariable::kEndpoint,   TextVariable::kAttempts,   TextVariable::kBytesPinned};

}  // namespace

std::string_view name_of(TextVariable variable) {
  if (variable == TextVariable::kNone) return "";
  if (variable == TextVariable::kHeader) return kHeaderPrefix.substr(0, kHeaderPrefix.size() - 1);
  if (variable == TextVariable::kResponseHeader)
    return kResponseHeaderPrefix.substr(0, kResponseHeaderPrefix.size() - 1);
  const auto index = static_cast<size_t>(variable);
  constexpr auto kFirst = static_cast<size_t>(TextVariable::kClientIp),
                 kFirstOfLog = static_cast<size_t>(TextVariable::kTarget);
  return index < kFirstOfLog ? kRequestNames[index - kFirst] : kLogNames[index - kFirstOfLog];
}

bool is_number(TextVariable variable) {
  switch (variable) {
    case TextVariable::kStatus:
    case TextVariable::kDuration:
    case TextVariable::kUpstreamDuration:
    case TextVariable::kConnectDuration:
    case TextVariable::kBytesIn:
    case TextVariable::kBytesOut:
    case TextVariable::kBytesPinned:
    case TextVariable::kAttempts:
    case TextVariable::kClientPort:
    case TextVariable::kGrpcStatus:
      return true;
    default:
      return false;
  }
}

bool is_of_connection(TextVariable variable) {
  return variable == TextVariable::kNone ||
         std::find(std::begin(kOfConnections), std::end(kOfConnections), variable) != std::end(kOfConnections);
}

bool is_of_request(TextVariable variable) { return variable != TextVariable::kConnectDuration; }

std::string connection_variables() {
  return absl::StrJoin(kOfConnections, ", ",
                       [](std::string* out, TextVariable variable) { absl::StrAppend(out, name_of(variable)); });
}

bool TextTemplate::has_variables() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return piece.variable != TextVariable::kNone; });
}

absl::StatusOr<TextTemplate::Piece> TextTemplate::parse_variable(std::string_view name, TextScope scope) {
  if (const auto found = find_name(name, kRequestNames, TextVariable::kClientIp)) return Piece{*found, ""};
  std::string_view field = name;
  if (absl::ConsumePrefix(&field, kHeaderPrefix)) return parse_field(TextVariable::kHeader, field);
  const auto of_log = find_name(name, kLogNames, TextVariable::kTarget);
  const bool of_response = absl::ConsumePrefix(&field, kResponseHeaderPrefix);
  if (!of_log && !of_response) return no_such_variable(name, scope);
  if (scope != TextScope::kLog) {
    return absl::InvalidArgumentError(
        absl::StrCat(in_quotes(name), " is known when a request has ended: only `access_log.format` may have it"));
  }
  return of_log ? Piece{*of_log, ""} : parse_field(TextVariable::kResponseHeader, field);
}

absl::StatusOr<TextTemplate> TextTemplate::parse(std::string_view text, TextScope scope) {
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
    absl::StatusOr<Piece> piece = parse_variable(text.substr(2, brace - 2), scope);
    if (!piece.ok()) return piece.status();
    end_plain();
    parsed.pieces_.push_back(*std::move(piece));
    text.remove_prefix(brace + 1);
  }
  end_plain();
  return parsed;
}

}  // namespace sluice::config
