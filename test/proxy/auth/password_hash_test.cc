#include "proxy/auth/password_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "proxy/auth/users.h"

namespace sluice {
namespace {

// As written by htpasswd, openssl passwd and crypt(3) of libxcrypt.
constexpr std::string_view kHashesOfHunter2[] = {
    "{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=",
    "{SSHA}l89FrolYr2NkFhXVyfFDCE1U0YlzYWx0MTIzNA==",
    "$apr1$iRCGZpYZ$A/rJBDjg4oTDwoE5FlmN80",
    "$2y$04$dQbGfA7a8i8t/Lr0c8CZmu1bLyu.Hv5Shsm1pwLrEnZCPcGrzfSxW",
    "$6$saltsalt$8iYtNHxjWRl.NF6oNZ5tF.iKFlQREaXBLlSmZKP6dy9l5z3vsooWNW0/GZ6Nej73/TFug6pIPSqbJoCT6dfnj.",
    "$5$saltsalt$OIdfjX.u4Y3SJ4I2bX8w5BMf1VAUhHABNUirScDzZi3",
    "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$PmNgGTLMFjJn.URBv11CpTEm5RwlKtPjRtztKe6.b33",
};

TEST(PasswordHash, EachKind) {
  for (const std::string_view hash : kHashesOfHunter2) {
    EXPECT_TRUE(check_password_hash(hash).ok()) << hash << check_password_hash(hash);
    EXPECT_TRUE(password_fits(hash, "hunter2")) << hash;
    for (const std::string_view wrong : {"", "hunter", "hunter22", "Hunter2", "hunter2 "}) {
      EXPECT_FALSE(password_fits(hash, wrong)) << hash << " " << wrong;
    }
    EXPECT_FALSE(password_fits(hash, std::string_view("hunter2\0", 8))) << hash;
    EXPECT_FALSE(password_fits(hash, std::string(kMaxPasswordBytes + 1, 'x'))) << hash;
    EXPECT_EQ(is_slow_hash(hash), hash.front() == '$');
  }
  // More than a block of MD5.
  EXPECT_TRUE(password_fits("$apr1$abcdefgh$zXY5OY6mht8VDLtxT0hED/", "a long password of more than sixteen"));
}

TEST(PasswordHash, UnsupportedHashes) {
  for (const std::string_view hash :
       {"", "hunter2", "{PLAIN}hunter2", "rl0uE5rPMV1o2", "$1$salt$qJH7.N4xYta3aEG/dfqo/0", "{SHA}", "{SHA}87u9",
        "{SHA}!!!!", "{SSHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=", "$apr1$$A/rJBDjg4oTDwoE5FlmN80", "$apr1$iRCGZpYZ$A/rJB",
        "$2y$04$short", "$2y$15$dQbGfA7a8i8t/Lr0c8CZmu1bLyu.Hv5Shsm1pwLrEnZCPcGrzfSxW", "$6$rounds=999999999$salt$x"}) {
    EXPECT_FALSE(check_password_hash(hash).ok()) << hash;
  }
}

TEST(Users, Lines) {
  const absl::StatusOr<Users> users = Users::parse(
      "# a remark\n\nbob:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=\r\n"
      "al ice:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=:remark");
  ASSERT_TRUE(users.ok()) << users.status();
  EXPECT_EQ(users->size(), 2u);
  ASSERT_NE(users->find("bob"), nullptr);
  EXPECT_EQ(*users->find("bob"), kHashesOfHunter2[0]);
  EXPECT_EQ(*users->find("al ice"), kHashesOfHunter2[0]);
  EXPECT_EQ(users->find("Bob"), nullptr);
  EXPECT_EQ(users->some_hash(), kHashesOfHunter2[0]);
}

TEST(Users, Errors) {
  const auto error = [](std::string_view text) { return std::string(Users::parse(text).status().message()); };
  EXPECT_EQ(error(""), "it has no users; `htpasswd -B FILE NAME` adds one");
  EXPECT_EQ(error("\nbob"), "line 2: expected NAME:HASH, as `htpasswd -B` writes it");
  EXPECT_EQ(error(":{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0="), "line 1: expected NAME:HASH, as `htpasswd -B` writes it");
  EXPECT_EQ(
      error("bob:hunter2"),
      "line 1: user \"bob\": expected a hash as `htpasswd -B` writes it ($2y$...), or $y$, $6$, $5$, $apr1$, {SSHA} or "
      "{SHA}; plaintext passwords and hashes of the traditional crypt() are not accepted");
  EXPECT_EQ(error("bob:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=\nbob:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0="),
            "line 2: user \"bob\" is defined twice");
}

}  // namespace
}  // namespace sluice
