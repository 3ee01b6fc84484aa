#include "proxy/config/model/log.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "proxy/config/load/loader.h"

namespace sluice::config {
namespace {

using Kind = LogDestination::Kind;

PeerAddress address(std::string_view text) {
  const Address parsed = Address::parse(text).value();
  return PeerAddress::copy_of(parsed.data(), parsed.length());
}

TEST(LogTarget, ReadsWhatItPrints) {
  const std::pair<const char*, LogDestination> cases[] = {
      {"stderr", {Kind::kStderr, ""}},
      {"/var/log/sluice/log", {Kind::kFile, "/var/log/sluice/log"}},
      {"run.log", {Kind::kFile, "run.log"}},
      {"syslog", {Kind::kSyslog, "/dev/log"}},
      {"syslog:/run/syslog", {Kind::kSyslog, "/run/syslog"}},
      {"syslog:127.0.0.1:514", {Kind::kSyslog, "127.0.0.1:514", address("127.0.0.1:514")}},
      {"syslog:[::1]:601", {Kind::kSyslog, "[::1]:601", address("[::1]:601")}},
  };
  for (const auto& [text, destination] : cases) {
    const absl::StatusOr<LogTarget> target = LogTarget::parse(text);
    ASSERT_TRUE(target.ok()) << text << ": " << target.status();
    EXPECT_EQ(target->destination(), destination) << text;
    EXPECT_EQ(target->text(), text);
  }
  EXPECT_EQ(LogTarget::parse("syslog:/dev/log")->text(), "syslog");
  EXPECT_EQ(LogTarget().text(), "stderr");
}

TEST(LogTarget, RefusesOtherWords) {
  const std::string expected = "expected stderr, syslog, syslog:PATH, syslog:ADDRESS:PORT or the path of a file, got ";
  const std::string behind =
      "expected the absolute path of a socket or an address with a port behind `syslog:`, as in "
      "syslog:/dev/log or syslog:10.0.0.1:514, got ";
  const std::pair<std::string, std::string> cases[] = {
      {"", expected + "\"\""},
      {"stdout", expected + "\"stdout\""},
      {"off", expected + "\"off\"; `level: error` is the least"},
      {"journal", expected + "\"journal\"; a service's stderr goes to the journal, with its levels"},
      {"syslog:log", behind + "\"syslog:log\""},
      {"syslog:", behind + "\"syslog:\""},
      {"syslog:127.0.0.1", behind + "\"syslog:127.0.0.1\""},
      {"syslog:127.0.0.1:0", behind + "\"syslog:127.0.0.1:0\""},
      {"syslog:logs.example.com:514", behind + "\"syslog:logs.example.com:514\""},
      {"syslog:unix:/dev/log", behind + "\"syslog:unix:/dev/log\""},
      {"syslog:/" + std::string(107, 'x'), "the path of a socket has at most 107 bytes, got 108"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(LogTarget::parse(text).status().message(), message) << text;
  EXPECT_TRUE(LogTarget::parse("syslog:/" + std::string(106, 'x')).ok());
}

TEST(LogTarget, ErrorsHaveTheirPlace) {
  const absl::StatusOr<Config> loaded = load_text(R"(log:
  level: warn
  format: jsonl
  to: stdout
listeners: [ { name: a, address: "127.0.0.1:0", tcp: { forward: b } } ]
upstreams: [ { name: b, endpoints: [ 127.0.0.1:1 ] } ]
)",
                                                  "f");
  EXPECT_EQ(
      loaded.status().message(),
      "f:2:10: log.level: expected one of debug, info, warning, error, got \"warn\"\n"
      "f:3:11: log.format: expected one of text, json, got \"jsonl\"; did you mean \"json\"?\n"
      "f:4:7: log.to: expected stderr, syslog, syslog:PATH, syslog:ADDRESS:PORT or the path of a file, got \"stdout\"");
}

}  // namespace
}  // namespace sluice::config
