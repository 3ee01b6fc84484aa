#include "proxy/l4/connection_log.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "net/worker.h"

namespace sluice {

namespace {

// Version of the written state. A state of another one is not read: the log begins anew.
constexpr uint8_t kStateVersion = 1;

}  // namespace

ConnectionLog::ConnectionLog(ListenerLog& log) : log_(log), started_us_(monotonic_us()) {}

void ConnectionLog::note_client(const PeerAddress& address) {
  if (!address.is_set()) return;  // The connection is gone: what was known before is better.
  client_ = ClientIp(address);
  client_port_ = address.port();
}

void ConnectionLog::note_agreement(const Agreement& agreed) {
  tls_.set(agreed.version);
  cipher_.set(agreed.cipher);
  server_name_.set(agreed.server_name);
}

void ConnectionLog::note_attempt() {
  ++attempts_;
  if (attempted_us_ == 0) attempted_us_ = monotonic_us();
}

void ConnectionLog::note_connected() { connect_us_ = std::max<uint64_t>(1, monotonic_us() - attempted_us_); }

void ConnectionLog::write(std::string_view listener, std::string_view upstream, std::string_view endpoint,
                          std::string_view reason) const {
  AccessRecord record;
  record.kind = AccessRecord::Kind::kConnection;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  record.duration_us = monotonic_us() - started_us_;
  record.time_ms =
      int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 - static_cast<int64_t>(record.duration_us / 1000);
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = client_.text(ip);
  record.client_port = client_port_;
  record.listener = listener;
  record.protocol = "TCP";
  record.tls = tls_.view();
  record.cipher = cipher_.view();
  record.server_name = server_name_.view();
  record.reason = reason;
  record.request_bytes = bytes_in_;
  record.response_bytes = bytes_out_;
  record.pinned_bytes = pinned_bytes_;
  if (connect_us_ != 0) record.upstream_us = connect_us_;
  std::array<char, 12> index;
  if (route_ != kNoRoute) {
    const auto written = std::to_chars(index.data(), index.data() + index.size(), route_);
    record.route = {index.data(), static_cast<size_t>(written.ptr - index.data())};
  }
  record.upstream = upstream;
  record.endpoint = endpoint;
  record.attempts = attempts_;
  log_.write(record);
}

void ConnectionLog::write_state(StateWriter& out) const {
  out.u8(kStateVersion);
  out.u64(monotonic_us() - started_us_);
  out.u64(connect_us_);
  out.u64(bytes_in_);
  out.u64(bytes_out_);
  out.u32(attempts_);
  out.u32(route_);
  out.u16(client_port_);
  out.u8(static_cast<uint8_t>(client_.bytes().size()));
  out.bytes(client_.bytes());
  out.text(tls_.view());
  out.text(cipher_.view());
  out.text(server_name_.view());
}

bool ConnectionLog::read_state(StateReader& in) {
  if (in.u8() != kStateVersion) return false;
  const uint64_t now = monotonic_us();
  started_us_ = now - std::min(in.u64(), now);
  connect_us_ = in.u64();
  bytes_in_ = in.u64();
  bytes_out_ = in.u64();
  attempts_ = in.u32();
  route_ = in.u32();
  client_port_ = in.u16();
  client_ = ClientIp(in.bytes(in.u8()));
  tls_.set(in.text());
  cipher_.set(in.text());
  server_name_.set(in.text());
  return in.ok();
}

}  // namespace sluice
