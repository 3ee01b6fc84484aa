// What ThreadSanitizer reports as races wrongly: liburing maps and unmaps its rings by system calls that the sanitizer
// does not see, so that a ring seems to share its memory with an earlier one, of another thread, at the same address.
// And the ring closes descriptors, which the sanitizer does not see either: one that the control thread has received in
// an upgrade seems to be open still when a worker opens another one with its number.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:^io_uring_\n"
         "race:^__io_uring_\n"
         "race:^_io_uring_\n"
         "race:^cq_ring_needs_flush\n"
         "race:^sluice::Ring::finish\n"
         "race:^sluice::HandoverChannel::receive\n";
}
#endif
