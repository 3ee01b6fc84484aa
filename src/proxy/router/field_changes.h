#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"
#include "proxy/router/request_attributes.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Applies the changes in order. Returns false if there was no room for one; the changes before it stay applied.
/// `facts_of` is called again for each change that has variables: `fields` may belong to the request itself, and every
/// change invalidates views of them.
[[nodiscard]] bool change_fields(ChunkPool& pool, const std::vector<config::FieldChange>& changes,
                                 absl::FunctionRef<RequestAttributes()> facts_of, Fields& fields);

/// Whether one of the changes has a variable for the TLS version or server name.
bool use_tls_variables(const std::vector<config::FieldChange>& changes);

}  // namespace sluice
