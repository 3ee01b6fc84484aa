// The part of Socket for zero-copy sends: memory that the kernel still reads after a send has completed.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "net/socket.h"
#include "net/worker.h"

namespace sluice {

// A zero-copy send has two completions: the result, then (with F_MORE) the notification that the kernel has released
// the memory. The next send waits for neither the acknowledgment nor the notification, so sent bytes move to `lent_`
// until then.
void Socket::complete_zero_copy(Completion completion) {
  if (completion.notification()) {
    --in_flight_;
    if (static_cast<uint32_t>(completion.res) & IORING_NOTIF_USAGE_ZC_COPIED) {
      // The path copies anyway (loopback does): zero-copy only costs on this connection.
      ++worker_.counters().zero_copy_copied;
      no_zero_copy_ = true;
    }
    take_back_one(static_cast<uint32_t>(completion.res) & IORING_NOTIF_USAGE_ZC_COPIED);
    return;
  }
  if (completion.more()) {
    lend(static_cast<size_t>(std::max(completion.res, 0)));
    completion.res = std::min(completion.res, 0);
  } else {
    --in_flight_;
  }
  if (completion.res == -EOPNOTSUPP || completion.res == -ENOMEM || completion.res == -ENOBUFS) {
    // The socket does not support it (Unix), or no more memory may be pinned: send without zero-copy.
    no_zero_copy_ = true;
    completion.res = 0;
  }
  complete_send(completion);
}

void Socket::lend(size_t bytes) {
  if (!lent_) lent_ = std::make_unique<Lent>();
  ++lent_->sends;
  if (bytes > 0) lent_->data.append(out_.split_front(bytes));
  // Remove finished entries from the front before the vector grows.
  if (lent_->first > 0 && lent_->sizes.size() == lent_->sizes.capacity()) {
    lent_->sizes.erase(lent_->sizes.begin(), lent_->sizes.begin() + static_cast<std::ptrdiff_t>(lent_->first));
    lent_->first = 0;
  }
  lent_->sizes.push_back(static_cast<uint32_t>(bytes));
}

// Notifications do not identify their send. The kernel releases memory as the peer acknowledges it, that is, in the
// order of sending: a notification of a later send implies that the earlier sends were acknowledged too. Only a copied
// send gets its notification at once, regardless of earlier sends. After that, memory is kept until the last
// notification; no further send is zero-copy.
void Socket::take_back_one(bool copied) {
  if (--lent_->sends == 0) return lent_.reset();
  lent_->unordered |= copied;
  if (lent_->unordered) return;
  lent_->data.trim_front(lent_->sizes[lent_->first++]);
}

}  // namespace sluice
