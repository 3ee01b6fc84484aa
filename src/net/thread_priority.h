#pragma once

namespace sluice {

/// Makes the calling thread give way to the workers: it gets a quarter of a processor that one of them keeps busy (nice
/// 5), and one that wakes up waits for it for about a tenth of a millisecond. Before Linux 6.12 that is a slice of the
/// scheduler, some milliseconds.
void give_way_to_workers();

}  // namespace sluice
