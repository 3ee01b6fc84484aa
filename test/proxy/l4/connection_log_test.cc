#include "proxy/l4/connection_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "proxy/config/model/address.h"
#include "test/proxy/http/h2/allocations.h"
#include "test/proxy/log/log_rig.h"

namespace sluice {
namespace {

using testing::HasSubstr;

PeerAddress peer_address(std::string_view text) {
  const config::Address parsed = config::Address::parse(text).value();
  return PeerAddress::copy_of(parsed.data(), parsed.length());
}

class ConnectionLogTest : public test::LogTest {
 protected:
  ConnectionLogTest() : logs_(open({path("log")})), to_(logs_->writer(0, 0), config()) {}

  static config::AccessLog config() { return {.file = "unused", .format = config::LogFormat::parse("json").value()}; }
  // A connection about which everything is known.
  static void fill(ConnectionLog& log) {
    log.note_client(peer_address("[2001:db8::7]:51544"));
    Agreement agreed;
    agreed.version = "TLSv1.3";
    agreed.cipher = "TLS_CHACHA20_POLY1305_SHA256";
    agreed.server_name = "db.example.com";
    log.note_agreement(agreed);
    log.note_route(3);
    log.note_attempt();
    log.note_attempt();
    log.note_connected();
    log.count_in(7);
    log.count_in(3);
    log.count_out(5120);
  }
  // The line without its times.
  std::string line(const ConnectionLog& log) {
    log.write("edge", "db", "10.0.0.4:5432", "finished");
    logs_->close();
    std::string text = contents(path("log"));
    EXPECT_TRUE(text.ends_with("}\n")) << text;
    for (const std::string_view key : {"\"time\":", "\"duration_us\":", "\"connect_us\":"}) {
      const size_t at = text.find(key);
      if (at == std::string::npos || text[at + key.size()] == 'n') continue;
      text.replace(at, text.find(',', at) - at, std::string(key) + "0");
    }
    return text;
  }

  std::unique_ptr<AccessLogs> logs_;
  ListenerLog to_;
};

constexpr std::string_view kAll =
    "{\"time\":0,\"client\":\"2001:db8::7\",\"client_port\":51544,\"listener\":\"edge\",\"protocol\":\"TCP\",\"tls_"
    "version\":"
    "\"TLSv1.3\",\"tls_cipher\":\"TLS_CHACHA20_POLY1305_SHA256\",\"tls_server_name\":\"db.example.com\",\"reason\":"
    "\"finished\","
    "\"bytes_in\":10,\"bytes_out\":5120,\"bytes_pinned\":0,\"duration_us\":0,\"connect_us\":0,\"route\":\"3\","
    "\"upstream\":\"db\","
    "\"endpoint\":"
    "\"10.0.0.4:5432\",\"attempts\":2}\n";

TEST_F(ConnectionLogTest, HasAllThatWasNoted) {
  ConnectionLog log(to_);
  fill(log);
  EXPECT_EQ(line(log), kAll);
}

TEST_F(ConnectionLogTest, HasTheMostThatWaited) {
  ConnectionLog log(to_);
  log.note_pinned(100);
  log.note_pinned(4096);
  log.note_pinned(512);
  EXPECT_THAT(line(log), HasSubstr("\"bytes_pinned\":4096,"));
}

TEST_F(ConnectionLogTest, KnowsNothingAtFirst) {
  const ConnectionLog log(to_);
  const std::string text = line(log);
  EXPECT_THAT(text, HasSubstr("\"client\":null,\"client_port\":null,"));
  EXPECT_THAT(text, HasSubstr("\"tls_version\":null,\"tls_cipher\":null,\"tls_server_name\":null,"));
  EXPECT_THAT(text, HasSubstr("\"bytes_in\":0,\"bytes_out\":0,"));
  EXPECT_THAT(text, HasSubstr("\"connect_us\":null,\"route\":null,"));
}

// A connection that is gone has no address any more.
TEST_F(ConnectionLogTest, KeepsTheAddressThatItHad) {
  ConnectionLog log(to_);
  log.note_client(peer_address("192.0.2.7:1"));
  log.note_client(PeerAddress());
  EXPECT_THAT(line(log), HasSubstr("\"client\":\"192.0.2.7\",\"client_port\":1,"));
}

TEST_F(ConnectionLogTest, MovesWithItsConnection) {
  SecretBytes state;
  {
    ConnectionLog log(to_);
    fill(log);
    StateWriter out(state);
    log.write_state(out);
  }
  ConnectionLog moved(to_);
  StateReader in(state);
  ASSERT_TRUE(moved.read_state(in));
  EXPECT_TRUE(in.done());
  EXPECT_EQ(line(moved), kAll);
}

TEST_F(ConnectionLogTest, RefusesAStateThatIsCut) {
  SecretBytes state;
  ConnectionLog log(to_);
  fill(log);
  StateWriter out(state);
  log.write_state(out);
  for (size_t bytes = 0; bytes < state.size(); ++bytes) {
    StateReader in(std::span<const uint8_t>(state).first(bytes));
    EXPECT_FALSE(ConnectionLog(to_).read_state(in)) << bytes;
  }
  state[0] ^= 1;  // Another version.
  StateReader in(state);
  EXPECT_FALSE(ConnectionLog(to_).read_state(in));
}

TEST_F(ConnectionLogTest, CutsLongNames) {
  ConnectionLog log(to_);
  log.note_server_name(std::string(1000, 'a'));
  EXPECT_THAT(line(log), HasSubstr("\"tls_server_name\":\"aaaaa"));
}

TEST_F(ConnectionLogTest, AllocatesNothing) {
  const PeerAddress client = peer_address("192.0.2.7:1");
  Agreement agreed;
  agreed.server_name = "a-name-that-is-longer-than-a-short-string.example.com";
  const auto connection = [&] {
    ConnectionLog log(to_);
    log.note_client(client);
    log.note_agreement(agreed);
    log.note_route(0);
    log.note_attempt();
    log.note_connected();
    log.count_in(1);
    log.write("edge", "db", "10.0.0.4:5432", "finished");
  };
  EXPECT_EQ(test::allocations_of_calls(connection), 0u);
}

}  // namespace
}  // namespace sluice
