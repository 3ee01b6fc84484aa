#include "proxy/auth/basic_authenticator.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "test/net/loop.h"

namespace sluice {
namespace {

constexpr std::string_view kSlow = "bob:$2y$04$dQbGfA7a8i8t/Lr0c8CZmu1bLyu.Hv5Shsm1pwLrEnZCPcGrzfSxW\n";

class BasicAuthenticatorTest : public testing::Test {
 protected:
  AuthResult check(BasicAuthenticator& gate, std::string_view name_and_password) {
    Fields fields;
    EXPECT_TRUE(fields.add(loop_.worker().pool(), "authorization",
                           absl::StrCat("Basic ", absl::Base64Escape(name_and_password))));
    return gate.check(fields, job_);
  }

  test::Loop loop_{test::Loop::with_features()};
  ChunkPool::Use use_{&loop_.worker().pool()};
  const Users users_ = Users::parse(kSlow).value();
  const config::BasicAuth rules_;
  PasswordCheck* job_ = nullptr;
};

TEST_F(BasicAuthenticatorTest, IsBounded) {
  HelperThreads never(0);
  const HelperThreads::Desk desk(loop_.worker());
  BasicAuthenticator gate(rules_, never);
  gate.use(users_);
  for (size_t i = 0; i < BasicAuthenticator::kMaxChecks; ++i)
    EXPECT_EQ(check(gate, absl::StrCat("bob:", i)), AuthResult::kLater);
  EXPECT_EQ(check(gate, "bob:hunter2"), AuthResult::kBusy);
}

TEST_F(BasicAuthenticatorTest, GoodPasswordIsRemembered) {
  HelperThreads threads(1);
  const HelperThreads::Desk desk(loop_.worker());
  BasicAuthenticator gate(rules_, threads);
  gate.use(users_);
  int notified = 0, good = 0;
  const auto check_and_wait = [&](std::string_view given) {
    const AuthResult verdict = check(gate, given);
    if (verdict != AuthResult::kLater) return verdict;
    struct Result {
      int &notified, &good;
    } result{notified, good};
    job_->tell(
        [](void* context, bool fits) {
          ++static_cast<Result*>(context)->notified;
          static_cast<Result*>(context)->good += fits;
        },
        &result);
    const int before = notified;
    EXPECT_TRUE(loop_.until([&] { return notified > before; }));
    return verdict;
  };
  EXPECT_EQ(check_and_wait("bob:hunter2"), AuthResult::kLater);
  EXPECT_EQ(good, 1);
  EXPECT_EQ(check_and_wait("bob:hunter2"), AuthResult::kAdmitted);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(check_and_wait("bob:hunter3"), AuthResult::kLater);
  EXPECT_EQ(check_and_wait("eve:hunter2"), AuthResult::kLater);  // It takes as long as for a user that exists.
  EXPECT_EQ(good, 1);
  // One name and password only: the colon is where the name ends.
  EXPECT_EQ(check_and_wait("bo:b:hunter2"), AuthResult::kLater);
  gate.use(users_);
  EXPECT_EQ(check_and_wait("bob:hunter2"), AuthResult::kLater);
  EXPECT_EQ(good, 2);
}

// Possible defect: a check that began with the old file is remembered as good for the new one.
TEST_F(BasicAuthenticatorTest, FileReloadedDuringCheckCounts) {
  HelperThreads threads(1);
  const HelperThreads::Desk desk(loop_.worker());
  BasicAuthenticator gate(rules_, threads);
  gate.use(users_);
  ASSERT_EQ(check(gate, "bob:hunter2"), AuthResult::kLater);
  bool done = false;
  job_->tell([](void* context, bool) { *static_cast<bool*>(context) = true; }, &done);
  const Users others = Users::parse("eve:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=").value();
  gate.use(others);
  EXPECT_TRUE(loop_.until([&] { return done; }));
  EXPECT_EQ(check(gate, "bob:hunter2"), AuthResult::kRefused);
  EXPECT_EQ(check(gate, "eve:hunter2"), AuthResult::kAdmitted);
}

}  // namespace
}  // namespace sluice
