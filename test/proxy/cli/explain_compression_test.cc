#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "proxy/cli/explain.h"
#include "proxy/config/load/loader.h"

namespace sluice {
namespace {

constexpr std::string_view kConfig = R"(
listeners:
  - name: web
    address: 0.0.0.0:80
    http:
      compression: { codings: [ br, gzip ], types: [ text/*, application/json ] }
      routes:
        - { match: { path: { prefix: /off } }, forward: app, compression: false }
        - { forward: app, request_headers: [ { name: accept-encoding, remove: true } ] }
upstreams: [ { name: app, endpoints: [ 10.0.0.1:80 ] } ]
)";

// The text after `compresses`.
std::string compresses(ExplainedRequest request, std::string_view text = kConfig) {
  constexpr std::string_view kWord = "compresses  ";
  const absl::StatusOr<config::Config> config = config::load_text(text, "f");
  EXPECT_TRUE(config.ok()) << config.status();
  const std::string all = explain(*config, request).value();
  const size_t at = all.find(kWord);
  return at == std::string::npos ? "" : all.substr(at + kWord.size(), all.find('\n', at) - at - kWord.size());
}

TEST(ExplainCompression, PrintsWhatIsCompressedAndWhyNot) {
  const std::string yes = "br, for responses of text/*, application/json from 1KiB on";
  EXPECT_EQ(compresses({.url = "http://a/", .fields = {{"Accept-Encoding", "gzip, br, zstd"}}}), yes);
  EXPECT_EQ(compresses({.url = "http://a/", .fields = {{"Accept-Encoding", "zstd"}}}),
            "nothing: the client does not accept it (Accept-Encoding)");
  EXPECT_EQ(compresses({.url = "http://a/"}), "nothing: the client does not accept it (Accept-Encoding)");
  EXPECT_EQ(compresses({.url = "http://a/off", .fields = {{"Accept-Encoding", "br"}}}),
            "nothing: the route leaves it out");
  EXPECT_EQ(compresses({.method = "HEAD", .url = "http://a/", .fields = {{"Accept-Encoding", "br"}}}),
            "nothing: a response to HEAD has no body");
  const std::vector<std::pair<std::string, std::string>> grpc = {{"Accept-Encoding", "br"},
                                                                 {"content-type", "application/grpc"}};
  EXPECT_EQ(compresses({.method = "POST", .url = "http://a/", .fields = grpc}), "nothing: gRPC does so itself");
  EXPECT_EQ(compresses({.url = "http://a/", .fields = grpc}), yes);  // A GET is not a call.
}

TEST(ExplainCompression, PrintsNothingWithoutCompression) {
  EXPECT_EQ(compresses({.url = "http://a/", .fields = {{"Accept-Encoding", "br"}}}, R"(
listeners: [ { name: web, address: 0.0.0.0:80, http: { forward: app } } ]
upstreams: [ { name: app, endpoints: [ 10.0.0.1:80 ] } ]
)"),
            "");
}

}  // namespace
}  // namespace sluice
