// Checks of the parts of a listener's `http` and of its routes, apart from those of validate_route.h.
#pragma once

#include <string>
#include <vector>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the value of a Content-Type field. `path` is the path of the value.
void check_content_type(const std::string& type, const std::string& path, Report& report);
/// Checks changes of header fields. `path` is the path of the list.
void check_field_changes(const std::vector<FieldChange>& changes, const std::string& path, Report& report);

/// Checks the values of a route's `auth` beyond their types. `path` is the path of `auth`.
void check_auth(const Auth& auth, const std::string& path, Report& report);
/// Checks the values of a route's `forward_auth`, apart from the name of its upstream. `path` is its path.
void check_forward_auth(const ForwardAuth& auth, const std::string& path, Report& report);
/// Checks the values of a route's `cors` beyond their types. `path` is the path of `cors`.
void check_cors(const Cors& cors, const std::string& path, Report& report);
/// Checks the name of a cookie. An empty name means that there is no cookie, and is valid.
void check_cookie_name(const std::string& cookie, const std::string& path, Report& report);

/// Reports values of `compression` that cannot be intended. `path` is the path of `compression`.
void check_compression(const Compression& compression, const std::string& path, Report& report);

/// Checks `tracing`, which the listener has, apart from the name of its upstream. `path` is its path.
void check_tracing(const Http& http, const std::string& path, Report& report);

/// Checks the request id, the access log, the error bodies and the names of the routes. `path` is the path of the
/// listener's `http`.
void check_error_pages(const Http& http, const std::string& path, Report& report);

}  // namespace sluice::config
