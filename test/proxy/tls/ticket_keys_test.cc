#include "proxy/tls/ticket_keys.h"

#include <gtest/gtest.h>
#include <openssl/cipher.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>

namespace sluice {
namespace {

constexpr int64_t kDay = int64_t{24} * 3600;

struct Ticket {
  std::array<uint8_t, 16> name{};
  std::array<uint8_t, 16> iv{};
};

class TicketKeysTest : public testing::Test {
 protected:
  ~TicketKeysTest() override {
    for (const std::string& path : files_) std::remove(path.c_str());
  }
  static Ticket sealed_by(TicketKeys& keys) {
    Ticket ticket;
    bssl::ScopedEVP_CIPHER_CTX cipher;
    bssl::ScopedHMAC_CTX hmac;
    EXPECT_EQ(keys.seal(ticket.name.data(), ticket.iv.data(), cipher.get(), hmac.get()), 1);
    return ticket;
  }
  static int opened_by(TicketKeys& keys, const Ticket& ticket) {
    bssl::ScopedEVP_CIPHER_CTX cipher;
    bssl::ScopedHMAC_CTX hmac;
    return keys.open(ticket.name.data(), ticket.iv.data(), cipher.get(), hmac.get());
  }
  /// Named after this process too: each test is a process of its own, and several run at once. (Defect: two tests of
  /// this class shared a name, and one read the other's file or found it removed.)
  std::string file(size_t bytes, char fill) {
    files_.push_back(testing::TempDir() + "ticket_keys_" + std::to_string(getpid()) + "_" +
                     std::to_string(files_.size()));
    std::ofstream(files_.back()) << std::string(bytes, fill);
    return files_.back();
  }

 private:
  std::vector<std::string> files_;
};

TEST_F(TicketKeysTest, TheNextProcessContinuesWithRandomKeys) {
  TicketKeys before, now;
  const Ticket old = sealed_by(before);
  before.age(kDay);
  const Ticket current = sealed_by(before);
  SecretBytes state;
  StateWriter writer(state);
  before.write(writer);
  StateReader reader(state);
  ASSERT_TRUE(now.take_over(reader));
  EXPECT_EQ(opened_by(now, current), 1);
  EXPECT_EQ(opened_by(now, old), 2);
  EXPECT_EQ(opened_by(before, sealed_by(now)), 1);
  now.age(kDay);  // The age of the keys continues, too.
  EXPECT_EQ(opened_by(now, current), 2);
}

TEST_F(TicketKeysTest, MalformedKeysAreRefused) {
  TicketKeys before;
  const Ticket ticket = sealed_by(before);
  SecretBytes state;
  StateWriter writer(state);
  before.write(writer);
  for (size_t size = 0; size < state.size(); ++size) {
    TicketKeys now;
    StateReader reader(std::span<const uint8_t>(state).first(size));
    EXPECT_FALSE(now.take_over(reader)) << size;
    EXPECT_EQ(opened_by(now, ticket), 0);
  }
  state[8] = 0;  // No key.
  StateReader reader(std::span<const uint8_t>(state).first(9));
  EXPECT_FALSE(TicketKeys().take_over(reader));
}

TEST_F(TicketKeysTest, OwnKeysAreRenewedDailyAndOpenForTwoMoreDays) {
  TicketKeys keys;
  const Ticket first = sealed_by(keys);
  EXPECT_EQ(opened_by(keys, first), 1);
  keys.age(kDay - 60);
  EXPECT_EQ(opened_by(keys, first), 1);
  for (int day = 1; day <= 2; ++day) {
    keys.age(kDay);
    EXPECT_EQ(opened_by(keys, first), 2) << "A new ticket is due on day " << day;
    EXPECT_NE(sealed_by(keys).name, first.name);
  }
  keys.age(kDay);
  EXPECT_EQ(opened_by(keys, first), 0);
}

TEST_F(TicketKeysTest, OtherKeysDoNotOpen) {
  TicketKeys keys, others;
  EXPECT_EQ(opened_by(others, sealed_by(keys)), 0);
}

TEST_F(TicketKeysTest, FirstFileSealsAndAllOpen) {
  const std::string before = file(80, 'b'), now = file(80, 'n');
  auto old_keys = TicketKeys::read({before}), keys = TicketKeys::read({now, before});
  ASSERT_TRUE(old_keys.ok() && keys.ok());
  EXPECT_EQ(opened_by(**keys, sealed_by(**old_keys)), 2);
  EXPECT_EQ(opened_by(**keys, sealed_by(**keys)), 1);
  EXPECT_EQ(opened_by(**old_keys, sealed_by(**keys)), 0);
  (*keys)->age(kDay);
  EXPECT_EQ(sealed_by(**keys).name[0], 'n') << "They are the operator's to renew";
}

TEST_F(TicketKeysTest, FilesOfAnotherSizeAreRefused) {
  const auto short_one = TicketKeys::read({file(48, 's')});
  EXPECT_NE(short_one.status().message().find("expected 80 random bytes, got 48"), std::string::npos);
  EXPECT_FALSE(TicketKeys::read({"/nowhere"}).ok());
}

}  // namespace
}  // namespace sluice
