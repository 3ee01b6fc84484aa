#include "proxy/access_log/listener_log.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http/proxy/client_address.h"
#include "sluice/chunk_pool.h"
#include "test/proxy/http/h2/allocations.h"
#include "test/proxy/log/log_rig.h"

namespace sluice {
namespace {

class ListenerLogTest : public test::LogTest {
 protected:
  static config::AccessLog with(std::string_view when, std::string_view sample = "1") {
    config::AccessLog log{.file = "unused", .format = config::LogFormat::parse("%{status}").value()};
    if (!when.empty()) log.when = config::LogCondition::parse(when).value();
    log.sample = config::Share::parse(sample).value();
    return log;
  }

  // How many of `count` lines for the record are queued.
  size_t lines(const config::AccessLog& config, const AccessRecord& record, size_t count = 1) {
    const std::string file = path("lines");
    std::filesystem::remove(file);
    auto logs = open({file});
    ListenerLog log(logs->writer(0, 0), config);
    for (size_t i = 0; i < count; ++i) log.write(record);
    logs->close();
    const std::string all = contents(file);
    return static_cast<size_t>(std::count(all.begin(), all.end(), '\n'));
  }
  bool logs(std::string_view when, const AccessRecord& record) { return lines(with(when), record) == 1; }
};

TEST_F(ListenerLogTest, WithoutConditionAll) { EXPECT_EQ(lines(with(""), {}, 5), 5u); }

// A sink gets the records that are selected, with their lines in the format of the log.
TEST_F(ListenerLogTest, RecordsGoToASink) {
  struct Sink final : AccessRecordSink {
    explicit Sink(std::vector<std::string>& to) : lines(to) {}
    void add(const AccessRecord& record, std::string_view line) override {
      lines.push_back(std::to_string(record.status) + " " + std::string(line));
    }
    void stop() override { stopped = true; }
    bool idle() const override { return stopped; }

    std::vector<std::string>& lines;
    bool stopped = false;
  };
  std::vector<std::string> lines;
  ListenerLog log(std::unique_ptr<AccessRecordSink>(std::make_unique<Sink>(lines)), with("status >= 500"));
  log.write({.status = 200});
  log.write({.status = 503});
  EXPECT_EQ(lines, std::vector<std::string>{"503 503"});
  EXPECT_FALSE(log.idle());
  log.stop();
  EXPECT_TRUE(log.idle());
}

TEST_F(ListenerLogTest, Numbers) {
  const AccessRecord record = {.status = 500, .duration_us = 1'000'000};
  for (const std::string_view yes : {"status == 500", "status >= 500", "status <= 500", "status > 499", "status < 501",
                                     "status != 200", "duration >= 1s", "duration <= 1000ms", "duration > 999999us"}) {
    EXPECT_TRUE(logs(yes, record)) << yes;
  }
  for (const std::string_view no : {"status == 501", "status >= 501", "status <= 499", "status > 500", "status < 500",
                                    "status != 500", "duration > 1s", "duration < 1s"}) {
    EXPECT_FALSE(logs(no, record)) << no;
  }
}

TEST_F(ListenerLogTest, AnUnknownNumberFitsNoComparison) {
  EXPECT_FALSE(logs("upstream_duration > 0", {}));
  EXPECT_FALSE(logs("upstream_duration < 1h", {}));
  EXPECT_FALSE(logs("upstream_duration != 0", {}));
  EXPECT_TRUE(logs("not upstream_duration > 0", {}));
  EXPECT_FALSE(logs("grpc_status != 0", {}));
  EXPECT_TRUE(logs("grpc_status != 0", {.grpc_status = 5}));
  EXPECT_FALSE(logs("grpc_status != 0", {.grpc_status = 0}));
  EXPECT_TRUE(logs("upstream_duration > 1ms", {.upstream_us = 1001}));
}

TEST_F(ListenerLogTest, Texts) {
  const ChunkPool::Options options{.budget_bytes = size_t{4} << 20};
  ChunkPool pool(options);
  const ChunkPool::Use use(&pool);
  Fields fields;
  ASSERT_TRUE(fields.add(pool, "x-test", "a b"));
  const ClientIp client = parse_forwarded_address("203.0.113.7").value();
  const RequestAttributes facts = {.host = "h", .method = "GET", .fields = &fields, .client = &client};
  const AccessRecord record = {.client = "203.0.113.7", .reason = "ok", .user = "alice", .facts = &facts};
  EXPECT_TRUE(
      logs("method == GET and host == h and user == alice and client_ip == 203.0.113.7 and reason == ok", record));
  EXPECT_TRUE(logs("header:x-test == 'a b'", record));
  EXPECT_TRUE(logs("header:other == ''", record));
  EXPECT_FALSE(logs("header:other != ''", record));
  EXPECT_FALSE(logs("method != GET", record));
  EXPECT_FALSE(logs("method == get", record));
  // A connection has no facts.
  EXPECT_TRUE(logs("method == ''", {.kind = AccessRecord::Kind::kConnection}));
}

TEST_F(ListenerLogTest, Logic) {
  for (int bits = 0; bits < 8; ++bits) {
    const bool a = (bits & 1) != 0, b = (bits & 2) != 0, c = (bits & 4) != 0;
    const AccessRecord record = {.status = static_cast<uint16_t>(a), .request_bytes = b, .response_bytes = c};
    constexpr std::string_view kA = "status == 1", kB = "bytes_in == 1", kC = "bytes_out == 1";
    const auto text = [&](const std::string& form) {
      std::string out;
      for (const char each : form) {
        each == 'A' ? out += kA : each == 'B' ? out += kB : each == 'C' ? out += kC : out += each;
      }
      return out;
    };
    EXPECT_EQ(logs(text("A and B"), record), a && b);
    EXPECT_EQ(logs(text("A or B"), record), a || b);
    EXPECT_EQ(logs(text("not A"), record), !a);
    EXPECT_EQ(logs(text("A or B and C"), record), a || (b && c));
    EXPECT_EQ(logs(text("(A or B) and C"), record), (a || b) && c);
    EXPECT_EQ(logs(text("not (A or B) and not C"), record), !(a || b) && !c);
  }
}

TEST_F(ListenerLogTest, Samples) {
  constexpr size_t kCount = 20'000;
  const auto near = [](size_t got, double expected) {
    return std::abs(static_cast<double>(got) - expected) < 0.1 * kCount * 0.3;
  };
  EXPECT_TRUE(near(lines(with("", "0.3"), {}, kCount), 0.3 * kCount));
  EXPECT_TRUE(near(lines(with("random < 0.3"), {}, kCount), 0.3 * kCount));
  EXPECT_TRUE(near(lines(with("status == 0", "0.3"), {}, kCount), 0.3 * kCount));
  EXPECT_EQ(lines(with("status == 1", "0.3"), {}, kCount), 0u);
  // All errors, and a share of the others.
  EXPECT_EQ(lines(with("status >= 500 or random < 0.3"), {.status = 500}, kCount), kCount);
  EXPECT_TRUE(near(lines(with("status >= 500 or random < 0.3"), {.status = 200}, kCount), 0.3 * kCount));
  EXPECT_EQ(lines(with("random < 0"), {}, kCount), 0u);
  EXPECT_EQ(lines(with("random < 1"), {}, kCount), kCount);
}

TEST_F(ListenerLogTest, AllocatesNothing) {
  auto logs = open({path("file")});
  ListenerLog log(
      logs->writer(0, 0),
      with("(status >= 500 or duration > 1s) and method != 'a text that is longer than a short string' or random < 0.5",
           "0.5"));
  for (int i = 0; i < 100; ++i) log.write({.status = 500});  // The first line allocates the ring.
  uint64_t duration_us = 0;
  EXPECT_EQ(test::allocations_of_calls([&] { log.write({.status = 500, .duration_us = ++duration_us}); }), 0u);
}

}  // namespace
}  // namespace sluice
