#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "proxy/http/message/fields.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The start of a message, independent of the HTTP version that carries it. A request has a method, scheme, authority
/// and path; a response has a status (RFC 9113 section 8.3). In HTTP/1.1 these are the start line, Host, and Upgrade.
class Head {
 public:
  enum class Part : uint8_t {
    kMethod,
    kScheme,
    kAuthority,
    kPath,      ///< Includes the query; `*` for OPTIONS. Empty in a CONNECT without kProtocol.
    kProtocol,  ///< Of an extended CONNECT (RFC 8441), or of an HTTP/1.1 Upgrade: `websocket`.
  };
  // A request with kProtocol, or with the method CONNECT, requests a tunnel. kMethod is then the method as received:
  // GET from HTTP/1.1, or CONNECT from HTTP/2. The codec that sends the head writes the method of its own version. The
  // following rules let each version be translated into the other (RFC 8441 section 5.2):
  // - Sec-WebSocket-Key and -Accept, Upgrade and Connection belong to an HTTP/1.1 connection, whose codec handles them.
  //   They are in no Head. The other Sec-WebSocket fields pass through.
  // - A 2xx status in a Head without kProtocol accepts the tunnel. HTTP/1.1 writes the acceptance of an upgrade as
  //   101, and reads it from nothing else. From then on, the bodies are the tunnel, each until its end. Data after the
  //   request is not delivered earlier.
  // - Any other final status, or a Head that is `own`, refuses the tunnel: the response is an ordinary one, and the
  //   other direction is at its end. So does a 2xx with `ignores_upgrade`: HTTP/1.1 may respond to an upgrade as to an
  //   ordinary request (RFC 9110 section 7.8).

  /// Sets a part. Returns false if that would exceed Fields::kMaxBytes.
  [[nodiscard]] bool set(ChunkPool& pool, Part part, std::string_view value) { return set(pool, part, value, {}); }
  /// Sets a part to the concatenation of two texts.
  [[nodiscard]] bool set(ChunkPool& pool, Part part, std::string_view first, std::string_view second) {
    return fields.keep(pool, first, second, parts_[static_cast<size_t>(part)]);
  }
  std::string_view part(Part part) const { return fields.text(parts_[static_cast<size_t>(part)]); }

  std::string_view method() const { return part(Part::kMethod); }
  std::string_view scheme() const { return part(Part::kScheme); }
  std::string_view authority() const { return part(Part::kAuthority); }
  std::string_view path() const { return part(Part::kPath); }
  std::string_view protocol() const { return part(Part::kProtocol); }

  void clear() { *this = Head(); }

  uint16_t status = 0;           ///< Of a response: 100 to 599. 0 in a request.
  bool ignores_upgrade = false;  ///< A 2xx response to an upgrade that treats it as an ordinary request.
  /// The proxy's own response: it accepts no tunnel, whatever its status, and the rest of the request is not needed.
  bool own = false;
  /// All fields except those that the parts hold (no Host) and those that apply to one connection only (RFC 9110
  /// section 7.6.1), which end with the connection that carried them. Content-Length is present once if it was sent;
  /// Transfer-Encoding never is.
  Fields fields;

 private:
  std::array<Text, 5> parts_{};
};

}  // namespace sluice
