// Checks of identity, access log and error pages beyond the types of their keys, with the position of each finding.
#include "proxy/config/model/error_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"

namespace sluice::config {
namespace {

// `fields` begin at column 68 of line 1.
std::string with_http(std::string_view fields) {
  return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { forward: web, ", fields,
                      " } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] } ]\n");
}

std::string error(std::string_view text) {
  const absl::StatusOr<Config> config = load_text(text, "f");
  return config.ok() ? "" : std::string(config.status().message());
}

const std::string kAt = "listeners[0].http.";

TEST(StatusPattern, Forms) {
  const auto holds = [](std::string_view text, uint32_t status) {
    return StatusPattern::parse(text).value().holds(status);
  };
  EXPECT_TRUE(holds("404", 404));
  EXPECT_FALSE(holds("404", 405));
  EXPECT_TRUE(holds("4xx", 400) && holds("4xx", 499));
  EXPECT_FALSE(holds("4xx", 399) || holds("4xx", 500));
  EXPECT_TRUE(holds("5xx", 500) && holds("5xx", 599));
  for (const std::string_view text : {"404", "4xx", "5xx", "599"}) EXPECT_EQ(StatusPattern::parse(text)->text(), text);
  for (const std::string_view text : {"", "200", "399", "600", "40", "4040", "3xx", "5XX", "5x", "-44", "+44", " 44"}) {
    EXPECT_EQ(StatusPattern::parse(text).status().message(),
              absl::StrCat("expected a status from 400 to 599, 4xx or 5xx, got \"", text, "\""));
  }
}

TEST(ErrorText, Pieces) {
  using Pieces = std::vector<ErrorText::Piece>;
  EXPECT_EQ(ErrorText::parse("")->pieces(), Pieces{});
  EXPECT_EQ(ErrorText::parse("a%{status}%{trace_id}b")->pieces(), (Pieces{{ErrorVariable::kNone, "a"},
                                                                          {ErrorVariable::kStatus, ""},
                                                                          {ErrorVariable::kTraceId, ""},
                                                                          {ErrorVariable::kNone, "b"}}));
  EXPECT_EQ(ErrorText::parse("100% %% %")->pieces(), (Pieces{{ErrorVariable::kNone, "100% %% %"}}));
}

TEST(ErrorText, Errors) {
  const auto error = [](std::string_view text) { return std::string(ErrorText::parse(text).status().message()); };
  const std::string known = " of errors; they are status, reason, message, request_id, trace_id";
  EXPECT_EQ(error("%{path}"), "there is no variable \"path\"" + known) << "which could hold HTML of a client";
  EXPECT_EQ(error("%{}"), "there is no variable \"\"" + known);
  // Defect: a known name without its end was accepted, and more than the text was removed.
  for (const std::string_view text : {"%{status", "%{", "a%{stat"})
    EXPECT_EQ(error(text), "expected a `}` behind `%{`");
  std::string text;
  for (size_t i = 0; i < ErrorText::kMaxVariables; ++i) text += "%{status}";
  EXPECT_EQ(error(text), "");
  EXPECT_EQ(error(text + "%{status}"), "expected at most 64 variables");
  EXPECT_EQ(error(std::string(ErrorText::kMaxBytes, 'x')), "");
  EXPECT_EQ(error(std::string(ErrorText::kMaxBytes + 1, 'x')), "expected a body of at most 64KiB, got 65537 bytes");
}

TEST(LoaderResponses, AccessLog) {
  EXPECT_EQ(error(with_http("access_log: stdout")), "");
  EXPECT_EQ(error(with_http("access_log: { file: a.log, format: json }")), "");
  EXPECT_EQ(error(with_http("access_log: \"otlp:web\"")), "");
  EXPECT_EQ(error(with_http("access_log: { file: \"otlp:web\", otlp: { path: /x } }")), "");
  EXPECT_THAT(error(with_http("access_log: \"otlp:\"")),
              testing::HasSubstr("expected the name of an upstream, as in otlp:collector, got \"otlp:\""));
  EXPECT_THAT(error(with_http("access_log: \"otlp:wbe\"")), testing::HasSubstr("\"wbe\""));
  EXPECT_THAT(error(with_http("access_log: { file: a.log, otlp: {} }")),
              testing::HasSubstr("is for `file: otlp:UPSTREAM` only, got \"a.log\""));
  EXPECT_THAT(error(with_http("access_log: { file: \"otlp:web\", otlp: { path: x } }")),
              testing::HasSubstr("access_log.otlp.path: expected a path such as /v1/logs, got \"x\""));
  EXPECT_THAT(error(with_http("access_log: { file: \"otlp:web\", otlp: { service_name: \"\" } }")),
              testing::HasSubstr("access_log.otlp.service_name: expected a name of 1 to 255 bytes"));
  EXPECT_EQ(error(with_http("access_log: { format: json }")), "f:1:80: missing key \"file\" in " + kAt + "access_log");
  EXPECT_EQ(error(with_http("access_log: none")), "f:1:80: " + kAt +
                                                      "access_log: expected a file, stdout, stderr, syslog or "
                                                      "otlp:UPSTREAM, got \"none\"; for no log leave the key out");
  EXPECT_EQ(error(with_http("access_log: { file: a, format: \"%{sttus}\" }")),
            "f:1:99: " + kAt + "access_log.format: there is no variable \"sttus\"; did you mean %{status}?");
}

TEST(LoaderResponses, RequestId) {
  EXPECT_EQ(error(with_http("request_id: X-Request-Id")), "");
  EXPECT_EQ(error(with_http("request_id: { header: x-id, accept: always, respond: true }")), "");
  EXPECT_EQ(
      error(with_http("request_id: { header: x-id, accept: trusted }")),
      "f:1:104: " + kAt +
          "request_id.accept: `trusted` needs `trusted_proxies` or `trusted_hops`: otherwise no proxy is trusted");
  EXPECT_EQ(error(with_http("trusted_hops: 1, request_id: { header: x-id, accept: trusted }")), "");
  EXPECT_EQ(
      error(with_http("request_id: { header: connection }")),
      "f:1:90: " + kAt +
          "request_id.header: \"connection\" is the proxy's own affair: it belongs to one connection, or says how "
          "long a message is");
}

TEST(LoaderResponses, TrustedProxies) {
  EXPECT_EQ(error(with_http("trusted_proxies: 10.0.0.0/8, trusted_hops: 32")), "");
  EXPECT_EQ(error(with_http("trusted_proxies: []")),
            "f:1:85: " + kAt + "trusted_proxies: expected at least one item, got an empty list");
  EXPECT_EQ(error(with_http("trusted_hops: 33")), "f:1:82: " + kAt + "trusted_hops: must be from 0 to 32, got \"33\"");
}

TEST(LoaderResponses, Errors) {
  EXPECT_EQ(error(with_http("errors: [ { status: 404, body: a }, { status: [ 503, 4xx ], file: b } ]")), "");
  EXPECT_EQ(error(with_http("errors: [ { status: 404 } ]")),
            "f:1:78: " + kAt + "errors[0]: expected `body: TEXT` or `file: PATH`");
  EXPECT_EQ(error(with_http("errors: [ { status: 404, body: a, file: b } ]")),
            "f:1:78: " + kAt + "errors[0]: `body` and `file` exclude each other");
  EXPECT_EQ(error(with_http("errors: [ { status: 200, body: a } ]")),
            "f:1:88: " + kAt + "errors[0].status[0]: expected a status from 400 to 599, 4xx or 5xx, got \"200\"");
  EXPECT_EQ(error(with_http("errors: [ { status: 404, body: a, content_type: \"\" } ]")),
            "f:1:116: " + kAt + "errors[0].content_type: expected a type such as text/html; charset=utf-8, got \"\"");
  EXPECT_EQ(error(with_http("errors: [ { status: 404, body: \"%{x}\" } ]")),
            "f:1:99: " + kAt +
                "errors[0].body: there is no variable \"x\" of errors; they are status, reason, message, request_id, "
                "trace_id");
}

TEST(LoaderResponses, Tracing) {
  EXPECT_EQ(error(with_http("trace_context: make, tracing: web")), "");
  EXPECT_EQ(error(with_http("tracing: web")),
            "f:1:77: " + kAt +
                "tracing: needs `trace_context: pass`, which records traces that clients began, or `make`, which "
                "begins traces, too");
  EXPECT_EQ(error(with_http("trace_context: make, tracing: { to: wob, path: x, service_name: \"\" }")),
            "f:1:104: " + kAt + "tracing.to: there is no upstream \"wob\"; did you mean \"web\"?\nf:1:115: " + kAt +
                "tracing.path: expected a path such as /v1/traces, got \"x\"\nf:1:132: " + kAt +
                "tracing.service_name: expected a name of 1 to 255 bytes, got \"\"");
}

TEST(LoaderResponses, RouteNames) {
  const auto with_names = [](std::string_view first, std::string_view second) {
    return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { routes: [\n{ name: ", first,
                        ", match: { host: a.b }, forward: web },\n{ name: ", second,
                        ", forward: web } ] } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] } ]\n");
  };
  EXPECT_EQ(error(with_names("a", "b")), "");
  EXPECT_EQ(error(with_names("a", "a")), "f:3:9: " + kAt + "routes[1].name: \"a\" is already the name of " + kAt +
                                             "routes[0]; names must be unique");
  EXPECT_EQ(
      error(with_names("a", "\"b c\"")),
      "f:3:9: " + kAt + "routes[1].name: expected a name of 1 to 64 letters, digits, `_`, `-` and `.`, got \"b c\"");
}

TEST(LoaderResponses, RoundTrip) {
  const Config config =
      load_text(
          with_http("trusted_hops: 1, trusted_proxies: [ 10.0.0.0/8 ], forwarded: append, trace_context: make, "
                    "tracing: { to: web, sample: 0.01 }, "
                    "request_id: { header: x-id, accept: trusted, respond: true }, access_log: { file: a.log, "
                    "format: \"%{status} \\\"%{target}\\\"\" }, errors: [ { status: [ 404, 5xx ], body: \"a\\nb\" } ]"),
          "f")
          .value();
  const std::string printed = print_config(config);
  EXPECT_EQ(load_text(printed, "printed").value(), config) << printed;
}

}  // namespace
}  // namespace sluice::config
