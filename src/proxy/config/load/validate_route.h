#pragma once

#include <string>
#include <vector>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the values of one HTTP route, independently of other routes: its conditions and its actions. `path` is the
/// route's path.
void check_route_values(const HttpRoute& route, const Paths& paths, const std::string& path, Report& report);

/// Checks the name of a field to be added or changed: it must be neither connection-specific nor a field that
/// determines the length of a message.
void check_field_name(const FieldName& name, const std::string& path, Report& report);
void check_content_type(const std::string& type, const std::string& path, Report& report);

void check_field_changes(const std::vector<FieldChange>& changes, const std::string& path, Report& report);

}  // namespace sluice::config
