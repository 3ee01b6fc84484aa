#include "proxy/http/message/error_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "proxy/http/message/request_id.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr OwnError kError{.status = 503, .reason = "no_endpoint", .message = "no endpoint can be reached"};

config::ErrorBody entry(std::string_view status, std::string_view body, std::string_view type = "text/html") {
  config::ErrorBody error;
  error.status = {config::StatusPattern::parse(status).value()};
  error.body = config::ErrorText::parse(body).value();
  error.content_type = type;
  return error;
}

std::string body_of(const ErrorPages& pages, const OwnError& error, ErrorForm form = ErrorForm::kPlain) {
  const OwnBody body = pages.body(error, form);
  return std::string(body.content_type) + ": " + std::string(body.text);
}

TEST(ErrorPages, WithoutPages) {
  const ErrorPages pages;
  EXPECT_EQ(body_of(pages, kError), "text/plain; charset=utf-8: no endpoint can be reached\n");
  EXPECT_EQ(
      body_of(pages, kError, ErrorForm::kJson),
      "application/json: {\"status\":503,\"reason\":\"no_endpoint\",\"message\":\"no endpoint can be reached\"}\n");
  OwnError error = kError;
  error.request_id = "abc";
  EXPECT_EQ(
      body_of(pages, error, ErrorForm::kProblem),
      "application/problem+json: {\"status\":503,\"title\":\"Service Unavailable\",\"detail\":\"no endpoint can be "
      "reached\",\"reason\":\"no_endpoint\",\"request_id\":\"abc\"}\n");
}

TEST(ErrorPages, FirstPageOfTheStatus) {
  config::Http http;
  http.errors = {entry("404", "a"), entry("5xx", "b"), entry("503", "c"), entry("404", "d")};
  const ErrorPages pages(http);
  EXPECT_EQ(body_of(pages, {.status = 404}), "text/html: a");
  EXPECT_EQ(body_of(pages, kError), "text/html: b");
  EXPECT_EQ(body_of(pages, {.status = 400, .message = "m"}), "text/plain; charset=utf-8: m\n");
}

// A page for browsers is not used for other programs.
TEST(ErrorPages, PageByAcceptedType) {
  config::Http http;
  http.errors = {entry("5xx", "<p>"), entry("5xx", "{}", "application/vnd.api+json; x=y")};
  const ErrorPages both(http);
  EXPECT_EQ(body_of(both, kError), "text/html: <p>");
  EXPECT_EQ(body_of(both, kError, ErrorForm::kJson), "application/vnd.api+json; x=y: {}");
  http.errors.pop_back();
  EXPECT_THAT(body_of(ErrorPages(http), kError, ErrorForm::kJson), HasSubstr("\"reason\":\"no_endpoint\""));
}

TEST(ErrorPages, Variables) {
  config::Http http;
  http.errors = {entry("4xx", "100%; %{status} %{reason} %{message} [%{request_id}] [%{trace_id}] %% {%}")};
  OwnError error = kError;
  error.status = 431;
  error.request_id = "id";
  EXPECT_EQ(body_of(ErrorPages(http), error),
            "text/html: 100%; 431 no_endpoint no endpoint can be reached [id] [] %% {%}");
}

TEST(ErrorPages, LongestPage) {
  std::string text;
  for (size_t i = 0; i < config::ErrorText::kMaxVariables; ++i) text += "%{request_id}";
  text.resize(config::ErrorText::kMaxBytes, 'x');
  config::Http http;
  http.errors = {entry("503", text)};
  const std::string id(kMaxRequestIdBytes, 'i');
  OwnError error = kError;
  error.request_id = id;
  const OwnBody body = ErrorPages(http).body(error, ErrorForm::kPlain);
  EXPECT_EQ(body.text.size(), text.size() + config::ErrorText::kMaxVariables * (id.size() - 13));
  EXPECT_TRUE(body.text.ends_with("x"));
}

TEST(ErrorPages, Files) {
  const std::string path = testing::TempDir() + "error_pages_test.html";
  const auto read = [&](std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
    config::Http http;
    http.errors = {entry("503", "")};
    http.errors[0].file = path;
    ErrorPages pages(http);
    const absl::Status status = pages.read_files();
    return status.ok() ? body_of(pages, kError) : std::string(status.message());
  };
  EXPECT_EQ(read("<h1>%{status}</h1>\r\n"), "text/html: <h1>503</h1>\r\n");
  EXPECT_EQ(read(std::string(config::ErrorText::kMaxBytes, 'x')).size(), config::ErrorText::kMaxBytes + 11);
  EXPECT_EQ(read(std::string(config::ErrorText::kMaxBytes + 1, 'x')),
            path + ": expected a body of at most 64KiB, got 65537 bytes");
  EXPECT_EQ(read("%{path}"), path +
                                 ": there is no variable \"path\" of errors; they are status, reason, message, "
                                 "request_id, trace_id");
  std::remove(path.c_str());
  config::Http http;
  http.errors = {entry("503", "")};
  http.errors[0].file = path;
  EXPECT_EQ(ErrorPages(http).read_files().message(), "cannot read " + path + ": No such file or directory");
}

}  // namespace
}  // namespace sluice
