#include "proxy/config/model/resolve.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/config/load/loader.h"

namespace sluice::config {
namespace {

std::string error_of(std::string_view text) {
  const auto parsed = EndpointAddress::parse(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(EndpointAddress, NamesAndAddresses) {
  for (const char* const text :
       {"app.internal:8080", "app:1", "a_b.test.:80", "3com.test:80", "xn--bcher-kva.test:80"}) {
    const auto name = EndpointAddress::parse(text);
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_TRUE(name->is_name() && name->is_set());
    EXPECT_EQ(name->text(), text);
  }
  const EndpointAddress name = *EndpointAddress::parse("App.Internal:8080");
  EXPECT_EQ(name.host(), "app.internal");
  EXPECT_EQ(name.port(), 8080);
  for (const char* const text : {"127.0.0.1:80", "[::1]:80", "unix:/run/a.sock", "unix:@a"}) {
    const auto address = EndpointAddress::parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_FALSE(address->is_name());
    EXPECT_EQ(address->address(), *Address::parse(text));
    EXPECT_EQ(address->text(), text);
  }
  EXPECT_FALSE(EndpointAddress::parse("localhost:80")->is_name());  // As in a listener's address.
  EXPECT_FALSE(EndpointAddress().is_set());
}

TEST(EndpointAddress, Mistakes) {
  const std::string expected = "expected an address or a name with a port such as app.internal:8080, got ";
  EXPECT_EQ(error_of("-a.test:80"),
            expected + "\"-a.test:80\"; a label of a name neither begins nor ends with a hyphen");
  EXPECT_EQ(error_of("a..test:80"), expected + "\"a..test:80\"; a label of the name is empty");
  EXPECT_EQ(error_of("a b.test:80"),
            expected + "\"a b.test:80\"; a name has letters, digits, hyphens and dots, which \"a b\" is not");
  EXPECT_NE(error_of(std::string(64, 'a') + ":80").find("a label of a name has up to 63 bytes"), std::string::npos);
  std::string longest;
  for (int i = 0; i < 127; ++i) longest += "a.";
  EXPECT_EQ(error_of(longest.substr(0, 253) + ":80"), "");
  EXPECT_NE(error_of(longest + "aa:80").find("a name has up to 253 bytes"), std::string::npos);
  EXPECT_NE(error_of("app.test").find("the port is missing"), std::string::npos);
  EXPECT_NE(error_of("app.test:x").find("a port is a number from 0 to 65535"), std::string::npos);
  EXPECT_NE(error_of("http://app.test:80").find("leave out the scheme and the path"), std::string::npos);
  EXPECT_NE(error_of("1.2.3:80").find("that is not an IPv4 address"), std::string::npos);
  EXPECT_NE(error_of("::1:80").find("an IPv6 address needs brackets"), std::string::npos);
  EXPECT_NE(error_of("*:80"), "");
}

TEST(ServiceName, NamesAndMistakes) {
  EXPECT_EQ(ServiceName::parse("_HTTP._tcp.example.com")->text(), "_http._tcp.example.com");
  EXPECT_TRUE(ServiceName().empty());
  EXPECT_EQ(ServiceName::parse("_http._tcp.test:80").status().message(),
            "expected the name of SRV records such as _http._tcp.example.com, got \"_http._tcp.test:80\"; ports are in "
            "the records");
  EXPECT_FALSE(ServiceName::parse("").ok());
  EXPECT_FALSE(ServiceName::parse("_http..test").ok());
}

std::string errors_of(std::string_view upstream) {
  const auto loaded = load_text(
      "listeners: [ { name: a, address: 0.0.0.0:1, tcp: { forward: a } } ]\n"
      "upstreams:\n  - " +
          std::string(upstream) + "\n",
      "f");
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

TEST(ResolveRules, ValidCombinations) {
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ a.test:80, 1.2.3.4:80, { srv: _a._tcp.test, priority: 2 } ] }"), "");
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ a.test:0 ] }"),
            "f:3:29: upstreams[0].endpoints[0]: expected a port from 1 to 65535, got \"a.test:0\"");
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ a.test:80, A.test:80 ] }"),
            "f:3:40: upstreams[0].endpoints[1]: a.test:80 is already upstreams[0].endpoints[0] (3:29); for a larger "
            "share give it a `weight`");
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ { srv: _a._tcp.test, address: a.test:80 } ] }"),
            "f:3:36: upstreams[0].endpoints[0].srv: expected either `srv` or `address`");
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ { srv: _a._tcp.test, weight: 2 } ] }"),
            "f:3:58: upstreams[0].endpoints[0].weight: the weights are those of the SRV records; remove it");
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ a.test:80 ], resolve: { servers: [ unix:/a ] } }"),
            "f:3:64: upstreams[0].resolve.servers[0]: expected the address of a name server such as 127.0.0.1:53, got "
            "\"unix:/a\"");
  EXPECT_EQ(errors_of("{ name: a, endpoints: [ a.test:80 ], resolve: { min_ttl: 2m } }"),
            "f:3:51: upstreams[0].resolve.max_ttl: must be at least `min_ttl`, which is 2m, got 1m");
}

}  // namespace
}  // namespace sluice::config
