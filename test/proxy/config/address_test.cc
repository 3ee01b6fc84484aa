#include "proxy/config/model/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice::config {
namespace {

Address address(std::string_view text) {
  absl::StatusOr<Address> parsed = Address::parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *parsed : Address();
}

Cidr cidr(std::string_view text) {
  absl::StatusOr<Cidr> parsed = Cidr::parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *parsed : Cidr();
}

TEST(Address, ReadsAndPrintsEachKind) {
  struct Case {
    std::string text;
    Address::Kind kind;
    uint16_t port;
    std::string printed;
  };
  const std::vector<Case> cases = {
      {"127.0.0.1:8080", Address::Kind::kIp4, 8080, "127.0.0.1:8080"},
      {"0.0.0.0:0", Address::Kind::kIp4, 0, "0.0.0.0:0"},
      {"localhost:65535", Address::Kind::kIp4, 65535, "127.0.0.1:65535"},
      {"[::1]:80", Address::Kind::kIp6, 80, "[::1]:80"},
      {"[2001:DB8:0::1]:443", Address::Kind::kIp6, 443, "[2001:db8::1]:443"},
      {"[::ffff:1.2.3.4]:1", Address::Kind::kIp6, 1, "[::ffff:1.2.3.4]:1"},
      {"unix:/run/app.sock", Address::Kind::kUnix, 0, "unix:/run/app.sock"},
      {"unix:relative path", Address::Kind::kUnix, 0, "unix:relative path"},
      {"unix:@abstract", Address::Kind::kUnix, 0, "unix:@abstract"},
      {"unix:" + std::string(107, 'x'), Address::Kind::kUnix, 0, "unix:" + std::string(107, 'x')},
      {"unix:@" + std::string(107, 'x'), Address::Kind::kUnix, 0, "unix:@" + std::string(107, 'x')},
  };
  for (const Case& c : cases) {
    const Address parsed = address(c.text);
    ASSERT_TRUE(parsed.is_set());
    EXPECT_EQ(parsed.kind(), c.kind) << c.text;
    EXPECT_EQ(parsed.port(), c.port) << c.text;
    EXPECT_EQ(parsed.text(), c.printed);
    EXPECT_EQ(address(c.printed), parsed);
  }
}

TEST(Address, ConvertsToSockaddr) {
  EXPECT_EQ(address("1.2.3.4:80").length(), sizeof(sockaddr_in));
  EXPECT_EQ(address("[::1]:80").length(), sizeof(sockaddr_in6));
  const Address path = address("unix:/a");
  EXPECT_EQ(path.length(), offsetof(sockaddr_un, sun_path) + 3);
  EXPECT_STREQ(reinterpret_cast<const sockaddr_un*>(path.data())->sun_path, "/a");
  const Address abstract = address("unix:@a");
  EXPECT_EQ(abstract.length(), offsetof(sockaddr_un, sun_path) + 2);
  EXPECT_EQ(reinterpret_cast<const sockaddr_un*>(abstract.data())->sun_path[0], '\0');
  EXPECT_EQ(reinterpret_cast<const sockaddr_un*>(abstract.data())->sun_path[1], 'a');
}

TEST(Address, ComparesWhole) {
  EXPECT_EQ(Address(), Address());
  EXPECT_EQ(Address().text(), "");
  EXPECT_FALSE(Address() == address("0.0.0.0:0"));
  EXPECT_FALSE(address("1.2.3.4:80") == address("1.2.3.4:81"));
  EXPECT_FALSE(address("unix:a") == address("unix:@a"));
  EXPECT_FALSE(address("unix:a") == address("unix:ab"));
}

TEST(Address, ErrorsExplainWhatToWrite) {
  const std::string expected = "expected an address such as 127.0.0.1:8080, \"[::1]:8080\" or unix:/run/app.sock, got ";
  const std::string every = "; for every interface write 0.0.0.0:PORT or \"[::]:PORT\"";
  const std::string brackets = "; an IPv6 address needs brackets, and YAML then needs quotes: \"[::1]:PORT\"";
  const std::string port = "; a port is a number from 0 to 65535";
  const std::string no_name = "; a host name is not allowed here; use an IP address";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "\"\"; the port is missing"},
      {"1.2.3.4", "\"1.2.3.4\"; the port is missing"},
      {"[::1]", "\"[::1]\"; the port is missing"},
      {"8080", "\"8080\"" + every},
      {":8080", "\":8080\"" + every},
      {"*:8080", "\"*:8080\"" + every},
      {"1.2.3.4:", "\"1.2.3.4:\"" + port},
      {"1.2.3.4:65536", "\"1.2.3.4:65536\"" + port},
      {"1.2.3.4:-1", "\"1.2.3.4:-1\"" + port},
      {"1.2.3.4:http", "\"1.2.3.4:http\"" + port},
      {"1.2.3:80", "\"1.2.3:80\"; that is not an IPv4 address"},
      {"1.2.3.256:80", "\"1.2.3.256:80\"; that is not an IPv4 address"},
      {"::1:80", "\"::1:80\"" + brackets},
      {"[1.2.3.4]:80", "\"[1.2.3.4]:80\"; the brackets do not contain an IPv6 address"},
      {"[::1%lo]:80", "\"[::1%lo]:80\"; the brackets do not contain an IPv6 address"},
      {"db.internal:5432", "\"db.internal:5432\"" + no_name},
      {"http://1.2.3.4:80", "\"http://1.2.3.4:80\"; leave out the scheme and the path"},
      {std::string("1.2.3.4\0:80", 11), "\"1.2.3.4\\x00:80\""},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(Address::parse(text).status().message(), expected + message) << text;
  }
  EXPECT_EQ(Address::parse("unix:").status().message(),
            "expected a path (or @ and a name) of 1 to 107 bytes after unix:, got \"\"");
  EXPECT_FALSE(Address::parse("unix:@").ok());
  EXPECT_FALSE(Address::parse("unix:" + std::string(108, 'x')).ok());
  EXPECT_FALSE(Address::parse("unix:a\nb").ok());
}

TEST(Cidr, ContainsItsRangeOnly) {
  struct Case {
    std::string range, address;
    bool inside;
  };
  const std::vector<Case> cases = {
      {"10.0.0.0/8", "10.255.255.255:1", true},
      {"10.0.0.0/8", "11.0.0.0:1", false},
      {"10.0.0.0/8", "[a00::]:1", false},
      {"10.0.0.0/8", "[::ffff:10.1.2.3]:1", true},
      {"10.0.0.0/8", "[::ffff:11.1.2.3]:1", false},
      {"192.168.4.0/22", "192.168.7.255:1", true},
      {"192.168.4.0/22", "192.168.8.0:1", false},
      {"1.2.3.4", "1.2.3.4:1", true},
      {"1.2.3.4", "1.2.3.5:1", false},
      {"0.0.0.0/0", "255.255.255.255:1", true},
      {"0.0.0.0/0", "[::1]:1", false},
      {"::/0", "[ffff::]:1", true},
      {"::/0", "1.2.3.4:1", false},
      {"2001:db8::/33", "[2001:db8:7fff::1]:1", true},
      {"2001:db8::/33", "[2001:db8:8000::1]:1", false},
      {"::1", "[::1]:1", true},
      {"::1", "[::2]:1", false},
      {"::ffff:0:0/96", "[::ffff:1.2.3.4]:1", true},
      {"0.0.0.0/0", "unix:/a", false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(cidr(c.range).contains(address(c.address)), c.inside) << c.range << " " << c.address;
  }
  EXPECT_FALSE(Cidr().contains(address("1.2.3.4:1")));
  EXPECT_FALSE(cidr("0.0.0.0/0").contains(Address()));
}

TEST(Cidr, RoundTrip) {
  EXPECT_EQ(cidr("10.0.0.0/8").text(), "10.0.0.0/8");
  EXPECT_EQ(cidr("10.0.0.1").text(), "10.0.0.1/32");
  EXPECT_EQ(cidr("2001:DB8::/32").text(), "2001:db8::/32");
  EXPECT_EQ(cidr("::1").text(), "::1/128");
  EXPECT_EQ(Cidr().text(), "");
}

TEST(Cidr, ErrorsExplainWhatToWrite) {
  const std::string expected = "expected an address range such as 10.0.0.0/8 or \"2001:db8::/32\", got ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "\"\""},
      {"lan", "\"lan\""},
      {"10.0.0.0/", "\"10.0.0.0/\"; the length is a number from 0 to 32"},
      {"10.0.0.0/33", "\"10.0.0.0/33\"; the length is a number from 0 to 32"},
      {"10.0.0.0/255.0.0.0", "\"10.0.0.0/255.0.0.0\"; the length is a number from 0 to 32"},
      {"::/129", "\"::/129\"; the length is a number from 0 to 128"},
      {"10.1.2.3/8", "\"10.1.2.3/8\"; bits are set beyond the prefix, did you mean 10.0.0.0/8?"},
      {"192.168.5.0/22", "\"192.168.5.0/22\"; bits are set beyond the prefix, did you mean 192.168.4.0/22?"},
      {"2001:db8::1/32", "\"2001:db8::1/32\"; bits are set beyond the prefix, did you mean 2001:db8::/32?"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(Cidr::parse(text).status().message(), expected + message) << text;
  }
}

}  // namespace
}  // namespace sluice::config
