#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/message/head.h"

namespace sluice {

/// Whether the host of a request is an address or this machine. Other names could be made to point here by the page
/// that a browser on this machine shows (DNS rebinding).
bool is_own_host(std::string_view authority);

/// Whether a field `Origin` names another page than those of the host of the request. Browsers send it with whatever a
/// page changes, and programs do not. `secured`: the request has come by TLS.
bool is_other_origin(const Head& head, bool secured);

/// Whether a browser says that the page of another site has made this request. Links and bookmarks that somebody opens
/// are none: their response is shown, and to no page.
bool is_cross_site(const Head& head);

}  // namespace sluice
