// Connections whose input is held back for a later turn of the loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "test/proxy/http/h2/rig.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using test::HttpRig;
using test::Peer;

// Defect: it was read on while it waited, so that it held all that its client sent.
TEST(HttpHeldBack, IsNotReadMeanwhile) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.add_origin();
  rig.start();
  Peer client = rig.connect_raw();
  client.send(std::string(kHttp2Preface) + test::http2::settings());
  rig.settle();
  std::string flood;
  for (uint32_t i = 0; i < 900; ++i) {
    const uint32_t stream = 2 * i + 1;
    flood += test::http2::get(stream, {{"x-a", std::string(2000, 'a')}}) + test::http2::rst(stream);
  }
  size_t sent = 0, most = 0;
  for (int i = 0; i < 200; ++i) {
    sent += client.send_some(flood.substr(sent));
    rig.settle(1);
    client.read();
    client.received.clear();
    most = std::max(most, rig.loop()->pool().out_bytes());
    EXPECT_TRUE(rig.holds_at_most(size_t{384} << 10)) << "in turn " << i << " " << rig.loop()->pool().out_bytes();
    if (HasFailure()) break;
  }
  EXPECT_GT(sent, size_t{1} << 20);  // It goes on nevertheless.
  client.close();
  rig.until([&] { return rig.sum_of_session_ends() == 1; });
}

}  // namespace
}  // namespace sluice
