#pragma once

#include <string>
#include <vector>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// What must hold for the values of one route of HTTP, whatever else there is: its conditions, and what it does.
/// `path` is where it stands.
void check_route_values(const HttpRoute& route, const Paths& paths, const std::string& path, Report& report);

/// A field that is added or changed must not belong to one connection, or say how long a message is.
void check_field_name(const FieldName& name, const std::string& path, Report& report);
void check_content_type(const std::string& type, const std::string& path, Report& report);

void check_field_changes(const std::vector<FieldChange>& changes, const std::string& path, Report& report);

}  // namespace sluice::config
