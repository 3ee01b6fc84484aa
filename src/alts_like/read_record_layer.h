#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "alts_like/record_layer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Restores the layer that wrote `bytes` (RecordLayer::write_state). Null if they have another version, or are not what
/// a layer writes.
std::unique_ptr<RecordLayer> read_record_layer(ChunkPool& pool, std::span<const uint8_t> bytes);

}  // namespace sluice
