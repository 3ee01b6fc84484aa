// HTTP's rules for an intermediary about requests, for all combinations of versions on the two sides.
#pragma once

#include <string_view>

#include "proxy/http/message/head.h"
#include "proxy/http/proxy/phases/phase.h"
#include "sluice/chunk_pool.h"

namespace sluice {

struct HttpListener;

/// Whether the name of a field has an underscore. Some servers treat it as a hyphen, and so take the field for another
/// one.
bool has_underscore(const Fields& fields);

/// Removes from the trailers of a request what only this proxy may set: a server that merges trailers into the header
/// section, as RFC 9110 section 6.5.2 permits, would take it for values from this proxy. Returns false if the listener
/// does not allow a name.
[[nodiscard]] bool admit_trailers(const HttpListener& listener, Fields& trailers);

/// Replaces all expectations of the client by one `expect: 100-continue`, as the HTTP/1.1 codec does: an HTTP/1.1
/// server might interpret several fields, or another spelling, in its own way. Returns false if there is another
/// expectation (RFC 9110 section 10.1.1), or if the head has no room.
[[nodiscard]] bool take_expectations(ChunkPool& pool, Head& request, bool has_body);

/// Applies Max-Forwards, which limits how far an OPTIONS or TRACE is forwarded (RFC 9110 section 7.6.2). `path`: as the
/// client sent it.
PhaseResult count_hop(ChunkPool& pool, Head& request, std::string_view path);

}  // namespace sluice
