#include "proxy/envoy/proto_json.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "proxy/common/json_writer.h"
#include "proxy/common/proto_writer.h"

namespace sluice::envoy {
namespace {

template <class Write>
std::string message(const Write& write) {
  std::string room(4096, '\0');
  ProtoWriter out(room);
  write(out);
  EXPECT_TRUE(out.ok());
  return std::string(out.written());
}

// Without blanks.
std::string json_of(std::string_view type, std::string_view bytes, std::set<std::string>* left_out = nullptr) {
  JsonWriter json;
  ProtoJson writer(json);
  writer.write_any(type, bytes);
  if (left_out != nullptr) *left_out = writer.left_out();
  return absl::StrReplaceAll(std::move(json).text(), {{" ", ""}, {"\n", ""}});
}

TEST(ProtoJson, PartsOfOneMessageAreOne) {
  // Cluster.connect_timeout is a Duration { seconds = 1, nanos = 2 }
  const std::string bytes = message([](ProtoWriter& out) {
    out.text(4, message([](ProtoWriter& part) { part.number(1, 3); }));
    out.text(1, "a");
    out.text(4, message([](ProtoWriter& part) { part.number(2, 50'000'000); }));
  });
  EXPECT_EQ(json_of("envoy.config.cluster.v3.Cluster", bytes),
            R"({"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"a","connect_timeout":"3.050s"})");
}

TEST(ProtoJson, PackedNumbersMayBeNone) {
  // RetryPolicy.retriable_status_codes
  constexpr std::string_view kType = "envoy.config.route.v3.RetryPolicy";
  const std::string prefix = R"({"@type":"type.googleapis.com/envoy.config.route.v3.RetryPolicy",)";
  EXPECT_EQ(json_of(kType, message([](ProtoWriter& out) { out.text(7, ""); })),
            prefix + R"("retriable_status_codes":[]})");
  EXPECT_EQ(json_of(kType, message([](ProtoWriter& out) { out.text(7, "\xf7\x03\x05"); })),
            prefix + R"("retriable_status_codes":[503,5]})");
  EXPECT_EQ(json_of(kType, message([](ProtoWriter& out) { out.number(7, 503); })),
            prefix + R"("retriable_status_codes":[503]})");
}

TEST(ProtoJson, SecretsAreRedacted) {
  constexpr std::string_view kType = "envoy.extensions.transport_sockets.tls.v3.TlsCertificate";
  const auto source = [](uint32_t field) { return message([&](ProtoWriter& out) { out.text(field, "hush"); }); };
  const std::string json = json_of(kType, message([&](ProtoWriter& out) {
                                     out.text(1, source(3));  // inline_string
                                     out.text(2, source(2));  // inline_bytes
                                     out.text(3, source(3));
                                     out.text(4, source(3));
                                   }));
  EXPECT_EQ(json, R"({"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.TlsCertificate",)"
                  R"("certificate_chain":{"inline_string":"hush"},"private_key":{"inline_bytes":"W3JlZGFjdGVkXQ=="},)"
                  R"("password":{"inline_string":"[redacted]"},"ocsp_staple":{"inline_string":"hush"}})");
}

TEST(ProtoJson, SaysWhatItLeavesOut) {
  std::set<std::string> left_out;
  json_of("envoy.config.cluster.v3.Cluster", message([](ProtoWriter& out) { out.number(2046, 1); }), &left_out);
  EXPECT_EQ(left_out, std::set<std::string>{"envoy.config.cluster.v3.Cluster: field 2046"});
  json_of("a.b.Unknown", message([](ProtoWriter& out) { out.number(1, 1); }), &left_out);
  EXPECT_EQ(left_out, std::set<std::string>{"a.b.Unknown"});
  json_of("a.b.Unknown", "", &left_out);
  EXPECT_TRUE(left_out.empty());
}

}  // namespace
}  // namespace sluice::envoy
