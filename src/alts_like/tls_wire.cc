#include "alts_like/tls_wire.h"

#include <span>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

TlsWire& wire_of(BIO* bio) { return *static_cast<TlsWire*>(BIO_get_data(bio)); }

int read_wire(BIO* bio, char* to, int size) {
  Buffer& in = wire_of(bio).in;
  BIO_clear_retry_flags(bio);
  if (in.empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const size_t taken = in.copy_out(0, std::as_writable_bytes(std::span(to, static_cast<size_t>(size))));
  in.trim_front(taken);
  return static_cast<int>(taken);
}

// Exceeds the budget if it must: the output is bounded by the input and by the data to be sealed.
int write_wire(BIO* bio, const char* from, int size) {
  TlsWire& wire = wire_of(bio);
  wire.out.append_copy_beyond_budget(*wire.pool, {from, static_cast<size_t>(size)});
  return size;
}

long control_wire(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

const BIO_METHOD* wire_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index(), "sluice buffers");
    SLUICE_CHECK(made && BIO_meth_set_read(made, read_wire) && BIO_meth_set_write(made, write_wire) &&
                 BIO_meth_set_ctrl(made, control_wire));
    return made;
  }();
  return method;
}

}  // namespace

bssl::UniquePtr<BIO> TlsWire::bio() {
  bssl::UniquePtr<BIO> made(BIO_new(wire_method()));
  SLUICE_CHECK(made);
  BIO_set_data(made.get(), this);
  BIO_set_init(made.get(), 1);
  return made;
}

}  // namespace sluice
