#include "proxy/envoy/format_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/token.h"

namespace sluice::envoy {
namespace {

struct OperatorRow {
  std::string_view envoy;
  std::string_view sluice;
  bool only_log = false;
  bool inexact = false;
};

constexpr OperatorRow kOperators[] = {
    {"DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "client_ip"},
    {"DOWNSTREAM_REMOTE_ADDRESS", "client_ip", false, true},
    {"DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT", "client_ip", false, true},
    {"DOWNSTREAM_REMOTE_PORT", "client_port", true},
    {"PROTOCOL", "protocol"},
    {"REQUESTED_SERVER_NAME", "tls_server_name"},
    {"DOWNSTREAM_TLS_VERSION", "tls_version"},
    {"DOWNSTREAM_TLS_CIPHER", "tls_cipher", true},
    {"DOWNSTREAM_PEER_URI_SAN", "peer"},
    {"DOWNSTREAM_PEER_DNS_SAN", "peer"},
    {"DOWNSTREAM_PEER_SUBJECT", "peer", false, true},
    {"REQ(:METHOD)", "method"},
    {"REQ(:AUTHORITY)", "authority"},
    {"REQ(HOST)", "authority"},
    {"REQ(:SCHEME)", "scheme"},
    {"REQ(X-FORWARDED-PROTO)", "scheme"},
    {"REQ(X-REQUEST-ID)", "request_id"},
    {"REQ(:PATH)", "target", true},
    {"REQ(X-ENVOY-ORIGINAL-PATH?:PATH)", "target", true},
    {"START_TIME", "time", true},
    {"RESPONSE_CODE", "status", true},
    {"RESPONSE_FLAGS", "reason", true, true},
    {"RESPONSE_CODE_DETAILS", "detail", true, true},
    {"BYTES_RECEIVED", "bytes_in", true},
    {"BYTES_SENT", "bytes_out", true},
    {"DURATION", "duration", true, true},
    {"RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)", "upstream_duration", true, true},
    {"UPSTREAM_HOST", "endpoint", true},
    {"UPSTREAM_REMOTE_ADDRESS", "endpoint", true},
    {"UPSTREAM_CLUSTER", "upstream", true},
    {"UPSTREAM_CLUSTER_RAW", "upstream", true},
    {"UPSTREAM_REQUEST_ATTEMPT_COUNT", "attempts", true},
    {"ROUTE_NAME", "route", true},
    {"GRPC_STATUS", "grpc_status", true, true},
    {"GRPC_STATUS_NUMBER", "grpc_status", true},
    {"TRACE_ID", "trace_id"},
};

// The operand of `NAME(operand)`, if it is the name of a field.
std::string_view field_in(std::string_view word, std::string_view name) {
  if (!absl::ConsumePrefix(&word, name) || !absl::ConsumePrefix(&word, "(") || !absl::ConsumeSuffix(&word, ")"))
    return "";
  return http1::is_token(word) ? word : "";
}

// The variable for an operator, without braces; empty if there is none.
std::string variable_for(std::string_view word, TextUse use, bool& inexact) {
  const std::string upper = absl::AsciiStrToUpper(word);
  const auto row = std::find_if(std::begin(kOperators), std::end(kOperators),
                                [&](const OperatorRow& each) { return each.envoy == upper; });
  if (row != std::end(kOperators)) {
    if (row->only_log && use == TextUse::kHeader) {
      inexact = true;  // A field gets the path without the query.
      return row->sluice == "target" ? "path" : "";
    }
    inexact |= row->inexact;
    return std::string(row->sluice);
  }
  for (const std::string_view name : {"REQ", "REQUEST_HEADER"}) {
    if (const std::string_view field = field_in(word, name); !field.empty()) {
      return absl::StrCat("header:", absl::AsciiStrToLower(field));
    }
  }
  const std::string_view response = field_in(word, "RESP");
  if (!response.empty() && use == TextUse::kAccessLog)
    return absl::StrCat("response_header:", absl::AsciiStrToLower(response));
  return "";
}

}  // namespace

TranslatedText translate_text(std::string_view format, TextUse use) {
  TranslatedText result;
  while (!format.empty()) {
    const size_t begin = std::min(format.find('%'), format.size());
    absl::StrAppend(&result.text, format.substr(0, begin));
    format.remove_prefix(begin);
    if (format.empty()) break;
    const size_t end = format.find('%', 1);
    const std::string_view word = format.substr(1, end == std::string_view::npos ? end : end - 1);
    format.remove_prefix(end == std::string_view::npos ? format.size() : end + 1);
    if (word.empty() && end != std::string_view::npos) {
      result.text += "%%";
      continue;
    }
    // A form of time and a length behind the operator are left out.
    std::string_view name = word;
    if (name.starts_with("START_TIME(")) name = "START_TIME";
    if (const size_t colon = name.rfind("):"); colon != std::string_view::npos) name = name.substr(0, colon + 1);
    const std::string variable = end == std::string_view::npos ? "" : variable_for(name, use, result.inexact);
    result.inexact |= name != word;
    if (variable.empty() && result.unknown.empty()) result.unknown = absl::StrCat("%", word, "%");
    absl::StrAppend(&result.text, "%{", variable, "}");
  }
  return result;
}

}  // namespace sluice::envoy
