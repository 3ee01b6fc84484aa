#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "pool/chunk_pool.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Does them in their order. False when there was no room for one; those before it are done. `facts_of` is asked anew
/// for each that speaks of the request: `fields` may be the request's own, so that every change ends its views.
[[nodiscard]] bool change_fields(ChunkPool& pool, const std::vector<config::FieldChange>& changes,
                                 absl::FunctionRef<RequestAttributes()> facts_of, Fields& fields);

/// Whether one of them asks what was agreed on in TLS.
bool speak_of_tls(const std::vector<config::FieldChange>& changes);

}  // namespace sluice
