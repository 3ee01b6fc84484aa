#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// What begins a message, whichever version of HTTP carries it: a request has a method, scheme, authority and path, a
/// response a status. RFC 9113 section 8.3; in HTTP/1.1 they are the start line, Host, and Upgrade.
class Head {
 public:
  enum class Part : uint8_t {
    kMethod,
    kScheme,
    kAuthority,
    kPath,      ///< With the query; `*` for OPTIONS. Empty in a CONNECT without kProtocol.
    kProtocol,  ///< Of an extended CONNECT (RFC 8441), which an Upgrade of HTTP/1.1 is turned into: `websocket`.
  };
  // Where kProtocol is set, or the method is CONNECT, a tunnel is asked for. kMethod then is as it was read, GET from
  // HTTP/1.1 or CONNECT from HTTP/2; what is written is what the version wants. So it is with the rest, so that each
  // version can be translated into each (RFC 8441 section 5.2):
  // - Sec-WebSocket-Key and -Accept, Upgrade and Connection are dealt with where a connection of HTTP/1.1 is read and
  //   written. They are in no Head. The other Sec-WebSocket fields pass.
  // - Yes is a status of 2xx in a Head without kProtocol, which HTTP/1.1 writes as 101, and reads from nothing else.
  //   Then bodies are the tunnel, each way until its end. Nothing that came behind the request is given before.
  // - A final status of another kind, or a Head that is `own`, is no: the response is as ever, and the other direction
  //   is at its end. So is a 2xx with `ignores_upgrade`: HTTP/1.1 may respond to an upgrade as if it were none (RFC
  //   9110 section 7.8).

  /// Sets a part; false when Fields::kMaxBytes would be passed.
  [[nodiscard]] bool set(ChunkPool& pool, Part part, std::string_view value) { return set(pool, part, value, {}); }
  /// Sets it to two texts in a row.
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
  bool ignores_upgrade = false;  ///< Of a response with 2xx to an upgrade: it is one to an ordinary request.
  /// A response of this proxy's: it agrees to no tunnel, whatever its status, and nobody wants the rest of the request.
  bool own = false;
  /// All but what the parts say (no Host), and but what concerns one connection only (RFC 9110 section 7.6.1), which
  /// ends where it was read. Content-Length is here, once, where it was sent; Transfer-Encoding never.
  Fields fields;

 private:
  std::array<Text, 5> parts_{};
};

}  // namespace sluice
