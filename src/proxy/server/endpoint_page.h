#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "proxy/admin/admin_pages.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// How the page of an endpoint is written in the list of pages.
inline constexpr std::string_view kEndpointPage = "/upstreams/NAME/endpoints/ADDRESS";

/// Whether a path is that of an endpoint.
bool is_endpoint_page(std::string_view path);

/// Shows an endpoint of one of `upstreams`, or changes it: a PUT or POST names what to change in its body, or in its
/// query, as `state=draining&weight=3`. Logs and counts a change. On the thread of the admin listener.
AdminResponse endpoint_page(const AdminRequest& request, const std::vector<std::shared_ptr<UpstreamState>>& upstreams,
                            AdminCounters& counters);

}  // namespace sluice
