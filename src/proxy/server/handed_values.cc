#include "proxy/server/handed_values.h"

#include <cstdint>
#include <span>

#include "alts_like/record_state.h"

namespace sluice {

void HandedSocket::write(SecretBytes& out) const {
  StateWriter writer(out);
  writer.text(listener);
  writer.text(address);
  writer.u8(both_families);
  writer.u32(ordinal);
}

bool HandedSocket::read(const SecretBytes& bytes) {
  StateReader reader(bytes);
  listener = reader.text();
  address = reader.text();
  const uint8_t both = reader.u8();
  both_families = both == 1;
  ordinal = reader.u32();
  return both <= 1 && reader.done();
}

void write_session(const MovingSession& session, SecretBytes& out) {
  StateWriter writer(out);
  writer.u16(kMovingSessionVersion);
  writer.u8(static_cast<uint8_t>(session.kind));
  writer.u16(static_cast<uint16_t>(session.listeners.size()));
  for (const std::string& listener : session.listeners) writer.text(listener);
  writer.u16(static_cast<uint16_t>(session.endpoints.size()));
  for (const MovingSession::Endpoint& endpoint : session.endpoints) {
    writer.text(endpoint.upstream);
    writer.text(endpoint.address);
  }
  writer.u32(static_cast<uint32_t>(session.state.size()));
  writer.bytes(session.state);
}

bool read_session(const SecretBytes& bytes, MovingSession& session) {
  StateReader reader(bytes);
  if (reader.u16() != kMovingSessionVersion) return false;
  session.kind = MovingSession::Kind{reader.u8()};
  session.listeners.clear();
  for (uint16_t left = reader.u16(); left > 0 && reader.ok(); --left) session.listeners.emplace_back(reader.text());
  session.endpoints.clear();
  for (uint16_t left = reader.u16(); left > 0 && reader.ok(); --left) {
    MovingSession::Endpoint& endpoint = session.endpoints.emplace_back();
    endpoint.upstream = reader.text();
    endpoint.address = reader.text();
  }
  const std::span<const uint8_t> state = reader.bytes(reader.u32());
  session.state.assign(state.begin(), state.end());
  return reader.done() && !session.listeners.empty();
}

}  // namespace sluice
