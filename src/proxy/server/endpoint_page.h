#pragma once

#include <string_view>

#include "proxy/admin/admin_pages.h"
#include "proxy/server/process_view.h"

namespace sluice {

/// How the page of an endpoint is written in the list of pages.
inline constexpr std::string_view kEndpointPage = "/upstreams/NAME/endpoints/ADDRESS";

/// Whether a path is that of an endpoint.
bool is_endpoint_page(std::string_view path);

/// Shows an endpoint of one of the upstreams, or changes it: a PUT or POST names what to change in its body, or in its
/// query, as `state=draining&weight=3`, and `add=true` adds it; DELETE removes it. Logs and counts a change. On the
/// thread of the admin listener.
AdminResponse endpoint_page(const AdminRequest& request, const ProcessView& view, AdminCounters& counters);

}  // namespace sluice
