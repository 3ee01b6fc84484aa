#pragma once

#include <memory>

#include "alts_like/handshake.h"
#include "alts_like/record_state.h"

namespace sluice {

/// Appends what the client's handshake agreed on; null: there was none.
void write_agreement(StateWriter& out, const Agreement* agreed);
/// Reads what write_agreement() has written. If that is malformed, `in` reports it.
std::unique_ptr<Agreement> read_agreement(StateReader& in);

}  // namespace sluice
