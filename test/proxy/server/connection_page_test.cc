// The query of /connections, and its JSON.
#include "proxy/server/connection_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "proxy/admin/query.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string error_of(std::string_view query) { return std::string(parse_connection_query(query).status().message()); }

TEST(AdminQuery, Parses) {
  EXPECT_THAT(*parse_query("a=b&c=10.0.0.0%2F8&d=&e=x+y"),
              ElementsAre(Pair("a", "b"), Pair("c", "10.0.0.0/8"), Pair("d", ""), Pair("e", "x+y")));
  EXPECT_TRUE(parse_query("")->empty());
  for (const char* bad : {"a", "=b", "a=%", "a=%4", "a=%zz", "a=1&a=2"}) EXPECT_FALSE(parse_query(bad).ok()) << bad;
}

TEST(ConnectionPage, ReadsEachParameter) {
  const auto query = parse_connection_query(
      "listener=web&peer=10.0.0.0/8&protocol=http2&state=request&min_age=1m&sort=memory&limit=7");
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->listener, "web");
  EXPECT_EQ(query->peer->text(), "10.0.0.0/8");
  EXPECT_EQ(query->kind, SessionKind::kHttp2);
  EXPECT_EQ(query->state, ConnectionState::kRequest);
  EXPECT_EQ(query->min_age_ms, 60'000);
  EXPECT_EQ(query->sort, ConnectionQuery::Sort::kMemory);
  EXPECT_EQ(query->limit, 7);
  EXPECT_EQ(parse_connection_query("after=00000000000000ff")->after, 255);
  EXPECT_EQ(parse_connection_query("")->limit, ConnectionQuery::kDefaultLimit);
}

TEST(ConnectionPage, SaysWhatIsExpected) {
  EXPECT_THAT(error_of("limit=0"), HasSubstr("limit: expected a number from 1 to 1000, got \"0\""));
  EXPECT_THAT(error_of("limit=1001"), HasSubstr("expected a number from 1 to 1000"));
  EXPECT_THAT(error_of("peer=10.0.0.1/8"), HasSubstr("peer: expected an IP address or a range such as 10.0.0.0/8"));
  EXPECT_THAT(error_of("protocol=smtp"), HasSubstr("expected one of tcp, http1, tunnel, http2, got \"smtp\""));
  EXPECT_THAT(error_of("state=x"), HasSubstr("handshake, inspecting, connecting, forwarding"));
  EXPECT_THAT(error_of("sort=x"), HasSubstr("expected one of newest, memory, age, queued"));
  EXPECT_THAT(error_of("min_age=x"), HasSubstr("expected a duration such as 10s"));
  EXPECT_THAT(error_of("after=x"), HasSubstr("an id of 16 hexadecimal digits"));
  EXPECT_THAT(error_of("after=0000000000000001&sort=age"), HasSubstr("pages follow each other only in the order"));
  EXPECT_THAT(error_of("port=1"), HasSubstr("there is no parameter \"port\"; the parameters are listener, peer"));
}

TEST(ConnectionPage, WritesUnixPeersAndMissingValues) {
  ConnectionTable table({.limit = 1}, 2);
  ConnectionRow& row = table.parts[0]->rows.emplace_back();
  row.id = 0xab;
  row.listener = "web";
  row.peer = PeerAddress::unix_socket({});
  row.details.bytes_in = 5;
  table.parts[0]->complete = true;
  table.parts[0]->open = table.parts[0]->matching = 3;
  JsonWriter json;
  write_connections(table, [](size_t worker) { return worker == 0; }, json);
  const std::string text = std::move(json).text();
  EXPECT_THAT(text, HasSubstr("\"next\": \"00000000000000ab\""));
  EXPECT_THAT(text, HasSubstr("\"peer_port\": null"));
  EXPECT_THAT(text, HasSubstr("\"tls\": null"));
  EXPECT_THAT(text, HasSubstr("\"bytes_in\": 5"));
  EXPECT_THAT(text, HasSubstr("\"bytes_out\": null"));
  EXPECT_THAT(text, HasSubstr("\"open\": 3"));
  EXPECT_THAT(text, HasSubstr("\"responds\": false"));
}

}  // namespace
}  // namespace sluice
