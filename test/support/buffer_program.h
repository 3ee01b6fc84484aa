// Random programs over many buffers, leases and views, each step of which is compared with a model: for the property
// test and for the fuzzer. Needs no test framework.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/appender.h"
#include "sluice/buffer.h"
#include "sluice/copied.h"
#include "sluice/cursor.h"
#include "sluice/file_pool.h"
#include "sluice/spill.h"

namespace sluice::test {

// Only tests may read reference counts. An explicit instantiation is the one place where the language does not check
// access rights.
template <typename Tag, typename Tag::Member kMember>
struct Reveal {
  friend typename Tag::Member revealed(Tag) { return kMember; }
};
#define SLUICE_REVEAL(Name, Class, Type, member) \
  struct Name {                                  \
    using Member = Type Class::*;                \
    friend Member revealed(Name);                \
  };                                             \
  template struct Reveal<Name, &Class::member>
SLUICE_REVEAL(BufferWindows, Buffer, WindowChain, windows_);
SLUICE_REVEAL(LeaseChunk, Lease, ChunkRef, chunk_);
SLUICE_REVEAL(ViewChunk, View, ChunkRef, chunk_);
#undef SLUICE_REVEAL

/// Runs the program that is encoded in some bytes: any bytes are a program. The model of each object is its text; of a
/// buffer, also which of its bytes came from a lease and were never cloned, so that they must be writable, and which
/// are read-only memory, so that they must not.
///
/// After each step: all bytes are those of the model; no writable range overlaps another object's range; bytes are
/// writable or not as they must be; each chunk has as many references as windows, and the memory taken from the pools
/// is exactly what the objects hold; exactly what the step may copy was counted as copied; an operation that was
/// refused memory has changed nothing. At the end every chunk has returned, and adopted memory was released once.
class BufferProgram {
 public:
  explicit BufferProgram(std::span<const uint8_t> program) : program_(program) {}

  /// The first error, or an empty string.
  std::string run() {
    pools_[0].emplace(ChunkPool::Options{.budget_bytes = kBudgets[number() % kBudgets.size()]});
    pools_[1].emplace(ChunkPool::Options{.budget_bytes = kBudgets[number() % kBudgets.size()]});
    while (at_ < program_.size() && problem_.empty()) {
      ++steps_;
      step();
      check();
    }
    objects_ = {};
    if (adopted_ != released_ && problem_.empty()) fail("adopted memory was not given back once");
    for (auto& pool : pools_) {
      pool->take_remote_frees();
      if (pool->leaked() != 0 && problem_.empty()) fail("chunks did not come home");
      pool.reset();
    }
    return problem_;
  }
  size_t steps() const { return steps_; }

 private:
  static constexpr size_t kBuffers = 6, kLeases = 4, kViews = 4;
  static constexpr size_t kMaxObjectBytes = 256 << 10;
  static constexpr std::array<size_t, 5> kBudgets{512, 20'000, 100'000, 1 << 20, 16 << 20};

  // An optional that needs no header of its own: pools do not move.
  class Pool {
   public:
    ~Pool() { reset(); }
    void emplace(ChunkPool::Options options) { pool_ = new ChunkPool(options); }
    void reset() { delete std::exchange(pool_, nullptr); }
    ChunkPool* operator->() { return pool_; }
    ChunkPool& operator*() { return *pool_; }

   private:
    ChunkPool* pool_ = nullptr;
  };
  struct ModelledBuffer {
    Buffer buffer;
    std::string text;
    std::string exclusive;  // For each byte of the text: 'x' must be writable, 'r' must not, '-' may be.
  };
  struct ModelledLease {
    Lease lease;
    std::string text;
  };
  struct ModelledView {
    View view;
    std::string text;
    char exclusive = '-';
  };
  struct Objects {
    std::array<ModelledBuffer, kBuffers> buffers;
    std::array<ModelledLease, kLeases> leases;
    std::array<ModelledView, kViews> views;
  };
  // A window of an object in memory.
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool writable;
  };

  // Reading the program. After its end there are zeros.

  uint8_t byte() { return at_ < program_.size() ? program_[at_++] : uint8_t{0}; }
  size_t number() {
    const size_t low = byte();
    return low | static_cast<size_t>(byte()) << 8;
  }
  // Typical sizes: mostly small, some around a tier's limit, a few large.
  size_t any_size() {
    const size_t kind = byte();
    const size_t tier = tier_bytes(static_cast<int>(kind % kTierCount));
    if (kind < 128) return byte();
    if (kind < 192) return std::min(tier, size_t{2048}) - 4 + byte() % 8;
    if (kind < 240) return number() % 5000;
    return kind < 248 ? tier - 1 + byte() % 3 : number() * 2;
  }
  // Up to and including `max`; often one of both ends.
  size_t up_to(size_t max) {
    const size_t kind = byte();
    if (kind < 16) return 0;
    if (kind < 32) return max;
    return kind < 160 ? std::min<size_t>(max, byte()) : number() * 7 % (max + 1);
  }
  // How much to take off something: mostly little.
  size_t part_of(size_t size) { return byte() % 8 == 0 ? up_to(size) : std::min<size_t>(size, byte() % 64); }
  template <typename Array>
  auto& any_of(Array& array) {
    return array[byte() % array.size()];
  }
  // Text that differs from step to step and from byte to byte.
  std::string fresh_text(size_t size) {
    std::string text(size, 0);
    for (char& c : text) c = static_cast<char>((next_byte_ = next_byte_ * 1664525 + 1013904223) >> 24);
    return text;
  }

  void fail(std::string_view what) {
    if (problem_.empty()) {
      problem_ = "step " + std::to_string(steps_) + ", operation " + std::to_string(operation_) + ": ";
      problem_ += what;
    }
  }
  void expect(bool holds, std::string_view what) {
    if (!holds) fail(what);
  }

  // The steps. Each is a small function; `may_copy_` is what it may count as copied.

  void step() {
    using Operation = void (BufferProgram::*)();
    static constexpr Operation kOperations[] = {
        &BufferProgram::allocate,      &BufferProgram::allocate,      &BufferProgram::grow_lease,
        &BufferProgram::trim_lease,    &BufferProgram::split_lease,   &BufferProgram::freeze_lease,
        &BufferProgram::write_lease,   &BufferProgram::clone_view,    &BufferProgram::trim_view,
        &BufferProgram::add_lease,     &BufferProgram::add_lease,     &BufferProgram::add_view,
        &BufferProgram::add_buffer,    &BufferProgram::add_buffer,    &BufferProgram::append_copy,
        &BufferProgram::append_copy,   &BufferProgram::append_itself, &BufferProgram::trim_front,
        &BufferProgram::trim_front,    &BufferProgram::truncate,      &BufferProgram::split_front,
        &BufferProgram::split_front,   &BufferProgram::split_front,   &BufferProgram::clear,
        &BufferProgram::clone,         &BufferProgram::clone,         &BufferProgram::move_assign,
        &BufferProgram::write_windows, &BufferProgram::write_windows, &BufferProgram::copy_out,
        &BufferProgram::fetch,         &BufferProgram::read_typed,    &BufferProgram::fill_iovecs,
        &BufferProgram::settle,        &BufferProgram::change_pool,   &BufferProgram::age_and_trim,
        &BufferProgram::add_halves,    &BufferProgram::prepend_copy,  &BufferProgram::prepend_itself,
        &BufferProgram::append_packed, &BufferProgram::append_packed, &BufferProgram::grow,
        &BufferProgram::reserve,       &BufferProgram::reserve,       &BufferProgram::write_typed,
        &BufferProgram::clone_part,    &BufferProgram::clone_part,    &BufferProgram::deep_clone,
        &BufferProgram::make_writable, &BufferProgram::make_writable, &BufferProgram::write_at,
        &BufferProgram::write_at,      &BufferProgram::pull_up,       &BufferProgram::pull_up,
        &BufferProgram::fill_in_place, &BufferProgram::find,          &BufferProgram::compare,
        &BufferProgram::checksum,      &BufferProgram::apply,         &BufferProgram::measure,
        &BufferProgram::adopt_lease,   &BufferProgram::adopt_view,    &BufferProgram::pack_buffer,
        &BufferProgram::read_bytes,    &BufferProgram::spill_to_file,
    };
    operation_ = byte() % std::size(kOperations);
    const Operation operation = kOperations[operation_];
    may_copy_ = 0;
    const uint64_t before = copied_bytes;
    {
      ChunkPool::Use use(current_ < pools_.size() ? &*pools_[current_] : nullptr);
      (this->*operation)();
    }
    expect(copied_bytes - before == may_copy_, "copied bytes were counted wrongly");
  }

  void allocate() { allocate(any_of(objects_.leases)); }
  void allocate(ModelledLease& to) {
    Pool& pool = any_of(pools_);
    const size_t headroom = up_to(64), size = std::min(any_size(), kMaxChunkBytes - headroom);
    const size_t bytes = tier_bytes(tier_for(size + headroom));
    to = {};
    pool->take_remote_frees();
    const bool fits = pool->headroom_bytes() >= bytes;
    to.lease = Lease::allocate(*pool, size, headroom);
    expect(!to.lease || fits, "a chunk beyond the budget");
    if (!to.lease) return;
    expect(to.lease.headroom() == headroom, "a fresh lease's headroom");
    expect(to.lease.tailroom() == bytes - headroom, "a fresh lease's tailroom");
    to.lease.grow_back(size - part_of(size));
    write(to.lease, to.text, to.lease.size());
  }
  // Overwrites a lease.
  void write(Lease& lease, std::string& text, size_t size) {
    text = fresh_text(size);
    if (size > 0) std::memcpy(lease.data(), text.data(), size);
  }
  void write_lease() {
    ModelledLease& to = any_of(objects_.leases);
    write(to.lease, to.text, to.lease.size());
  }
  void grow_lease() {
    ModelledLease& to = any_of(objects_.leases);
    to.lease.grow_front(up_to(to.lease.headroom()));
    to.lease.grow_back(up_to(to.lease.tailroom()));
    write(to.lease, to.text, to.lease.size());
  }
  void trim_lease() {
    ModelledLease& to = any_of(objects_.leases);
    const size_t front = up_to(to.text.size());
    to.lease.trim_front(front);
    to.text.erase(0, front);
    const size_t size = up_to(to.text.size());
    to.lease.truncate(size);
    to.text.resize(size);
  }
  void split_lease() {
    ModelledLease& from = any_of(objects_.leases);
    ModelledLease& to = any_of(objects_.leases);
    if (&from == &to) return;
    const size_t at = up_to(from.text.size());
    to.lease = from.lease.split_off(at);
    to.text = from.text.substr(at);
    from.text.resize(at);
  }
  void freeze_lease() {
    ModelledLease& from = any_of(objects_.leases);
    ModelledView& to = any_of(objects_.views);
    to = {std::move(from.lease).freeze(), std::exchange(from.text, {}), '-'};
  }
  void clone_view() {
    ModelledView& from = any_of(objects_.views);
    ModelledView copy{from.view.clone(), from.text, from.exclusive};
    any_of(objects_.views) = std::move(copy);
  }
  void trim_view() {
    ModelledView& to = any_of(objects_.views);
    const size_t front = up_to(to.text.size());
    to.view.trim_front(front);
    to.text.erase(0, front);
    const size_t size = up_to(to.text.size());
    to.view.truncate(size);
    to.text.resize(size);
  }

  void add_lease() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledLease& from = any_of(objects_.leases);
    if (from.text.empty()) allocate(from);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const bool at_front = byte() % 4 == 0;
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), from.text.size(), 'x');
    to.text.insert(at_front ? 0 : to.text.size(), from.text);
    at_front ? to.buffer.prepend(std::move(from.lease)) : to.buffer.append(std::move(from.lease));
    from.text.clear();
  }
  // Neighbors on one chunk that are not equally exclusive, in either order, one of them shared elsewhere too.
  void add_halves() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledLease& from = any_of(objects_.leases);
    if (from.text.empty()) allocate(from);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const size_t at = up_to(from.text.size());
    Lease back = from.lease.split_off(at);
    const bool front_is_view = byte() % 2 == 0, at_front = byte() % 2 == 0;
    View view = std::move(front_is_view ? from.lease : back).freeze();
    any_of(objects_.views) = {view.clone(), front_is_view ? from.text.substr(0, at) : from.text.substr(at), '-'};
    const auto add = [&](auto half) {
      at_front ? to.buffer.prepend(std::move(half)) : to.buffer.append(std::move(half));
    };
    // Prepended, the second one goes first.
    if (front_is_view != at_front) {
      add(std::move(view));
      add(std::move(front_is_view ? back : from.lease));
    } else {
      add(std::move(front_is_view ? back : from.lease));
      add(std::move(view));
    }
    const std::string front_mark(at, front_is_view ? '-' : 'x');
    const std::string back_mark(from.text.size() - at, front_is_view ? 'x' : '-');
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), front_mark + back_mark);
    to.text.insert(at_front ? 0 : to.text.size(), from.text);
    from = {};
  }
  void add_view() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledView& from = any_of(objects_.views);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const bool at_front = byte() % 4 == 0;
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), from.text.size(), from.exclusive);
    to.text.insert(at_front ? 0 : to.text.size(), from.text);
    View view = from.view.clone();
    at_front ? to.buffer.prepend(std::move(view)) : to.buffer.append(std::move(view));
  }
  void add_buffer() {
    ModelledBuffer& to = any_of(objects_.buffers);
    add_buffer(to, any_of(objects_.buffers), byte() % 4 == 0);
  }
  void add_buffer(ModelledBuffer& to, ModelledBuffer& from, bool at_front) {
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    at_front ? to.buffer.prepend(std::move(from.buffer)) : to.buffer.append(std::move(from.buffer));
    if (&to == &from) return;
    to.text.insert(at_front ? 0 : to.text.size(), std::exchange(from.text, {}));
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), std::exchange(from.exclusive, {}));
  }
  // The tail or head of a view's chunk is written when it is not shared, so the bytes added there are then a view's;
  // read-only memory is never grown.
  static char exclusive_beside(char neighbor) { return neighbor == '-' ? '-' : 'x'; }
  char exclusive_behind(const ModelledBuffer& to) const {
    return exclusive_beside(to.exclusive.empty() ? 'x' : to.exclusive.back());
  }
  // The positions of the windows of a buffer.
  using Places = std::vector<std::pair<const std::byte*, size_t>>;
  static Places places_of(const Buffer& buffer) {
    Places places;
    places.reserve(buffer.window_count());
    for (std::span<const std::byte> window : buffer.windows()) places.emplace_back(window.data(), window.size());
    return places;
  }
  // Does what takes memory of `pool` and copies `copies` bytes. Returns whether it succeeded. A refusal must have a
  // reason and leave the buffer unchanged, though bytes that were copied before the budget was exhausted are still
  // counted.
  template <typename Do>
  bool unless_refused(const Buffer& buffer, Pool& pool, size_t copies, Do act) {
    const Places places = places_of(buffer);
    const uint64_t refused = pool->stats().refused, before = copied_bytes;
    may_copy_ = copies;
    if (act()) return true;
    may_copy_ = copied_bytes - before;
    expect(may_copy_ <= copies, "more copied than there was");
    expect(places_of(buffer) == places, "a refused verb changed the buffer");
    expect(pool->stats().refused > refused, "refused without a reason");
    return false;
  }
  void append_text(ModelledBuffer& to, std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const char exclusive = exclusive_behind(to);
    Pool& pool = any_of(pools_);
    if (!unless_refused(to.buffer, pool, text.size(), [&] { return to.buffer.append_copy(*pool, bytes); })) return;
    to.text += text;
    to.exclusive.append(text.size(), exclusive);
  }
  void prepend_text(ModelledBuffer& to, std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const char exclusive = exclusive_beside(to.exclusive.empty() ? 'x' : to.exclusive.front());
    const size_t headroom = byte() % 4 == 0 ? any_size() % kMaxChunkBytes : byte() % 128, had = to.buffer.headroom();
    Pool& pool = any_of(pools_);
    if (!unless_refused(to.buffer, pool, text.size(), [&] { return to.buffer.prepend_copy(*pool, bytes, headroom); })) {
      return;
    }
    to.text.insert(0, text);
    to.exclusive.insert(0, text.size(), exclusive);
    expect(to.buffer.headroom() >= (text.size() > had ? headroom : had - text.size()), "headroom was left out");
  }
  void prepend_copy() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const std::string text = fresh_text(any_size());
    if (to.text.size() + text.size() <= kMaxObjectBytes) prepend_text(to, std::as_bytes(std::span(text)));
  }
  void prepend_itself() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (to.buffer.empty() || to.text.size() > kMaxObjectBytes / 2) return;
    prepend_text(to, to.buffer.window(byte() % to.buffer.window_count()));
  }
  void append_packed() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledView& from = any_of(objects_.views);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const uint64_t before = copied_bytes;
    const char packed = exclusive_behind(to);
    View view = from.view.clone();
    to.buffer.append_packed(*any_of(pools_), std::move(view));
    expect(view.empty(), "a packed view is still there");  // NOLINT(bugprone-use-after-move)
    const bool copied = copied_bytes != before;
    expect(!copied || from.text.size() <= Buffer::kPackBytes, "a large view was copied");
    may_copy_ = copied ? from.text.size() : 0;
    to.text += from.text;
    to.exclusive.append(from.text.size(), copied ? packed : from.exclusive);
  }
  // Each window is copied, merged or taken, which is determined from the positions of its bytes afterwards.
  void pack_buffer() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledBuffer& from = any_of(objects_.buffers);
    if (&to == &from || to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const uint64_t before = copied_bytes;
    const Places places = places_of(from.buffer);
    size_t small = 0;
    for (const auto& [data, size] : places) small += size <= Buffer::kPackBytes ? size : 0;
    const size_t offset = to.text.size();
    to.buffer.append_packed(*any_of(pools_), std::move(from.buffer));
    expect(from.buffer.empty(), "a packed buffer is still there");  // NOLINT(bugprone-use-after-move)
    may_copy_ = copied_bytes - before;
    expect(may_copy_ <= small, "a large window was copied");
    to.text += std::exchange(from.text, {});
    to.exclusive += std::exchange(from.exclusive, {});
    // A copy is as writable as what it was added to; bytes that stayed are unchanged.
    std::vector<const std::byte*> now;
    for (std::span<const std::byte> window : to.buffer.windows()) {
      for (const std::byte& byte : window) now.push_back(&byte);
    }
    size_t at = offset;
    for (const auto& [data, size] : places) {
      if (now[at] != data) {
        expect(size <= Buffer::kPackBytes, "a large window was moved");
        to.exclusive.replace(at, size, size, '-');
      }
      at += size;
    }
  }
  void read_bytes() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const Part part = any_part(from);
    Cursor cursor(from.buffer, part.offset);
    std::string to(part.count + (byte() % 4 == 0), 0);
    const bool ok = part.offset + to.size() <= from.text.size();
    expect(cursor.read(std::as_writable_bytes(std::span(to))) == ok && cursor.ok() == ok, "a cursor read, or did not");
    if (!ok) return;
    expect(to == from.text.substr(part.offset, to.size()), "a cursor read other bytes");
    expect(cursor.position() == part.offset + to.size(), "a cursor is somewhere else");
  }
  // To a file whose chunks count in no pool. If there is no directory for it, nothing is done.
  void spill_to_file() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (!files_)
      files_ = std::make_unique<FilePool>(FilePool::Options{.directory = "/dev/shm", .limit_bytes = 4 << 20});
    if (!files_->ok()) return;
    size_t at = 0, moved = 0;
    std::string exclusive = to.exclusive;
    for (std::span<const std::byte> window : to.buffer.windows()) {
      if (!files_->contains(window.data())) {
        exclusive.replace(at, window.size(), window.size(), 'r');
        moved += window.size();
      }
      at += window.size();
    }
    const Places places = places_of(to.buffer);
    const uint64_t before = copied_bytes;
    if (!spill(to.buffer, *files_)) {
      may_copy_ = copied_bytes - before;
      expect(may_copy_ < moved && places_of(to.buffer) == places, "a refused spill changed the buffer");
      return;
    }
    may_copy_ = moved;
    for (const auto& [data, size] : places_of(to.buffer)) expect(files_->contains(data), "bytes were not spilled");
    to.exclusive = std::move(exclusive);
  }
  void grow() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t count = any_size();
    const char fill = static_cast<char>(byte());
    if (to.text.size() + count > kMaxObjectBytes) return;
    const char exclusive = exclusive_behind(to);
    Pool& pool = any_of(pools_);
    const auto act = [&] { return to.buffer.grow(*pool, count, static_cast<std::byte>(fill)); };
    if (!unless_refused(to.buffer, pool, 0, act)) return;
    to.text.append(count, fill);
    to.exclusive.append(count, exclusive);
  }
  void reserve() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t bytes = std::clamp<size_t>(any_size(), 1, kMaxChunkBytes), tail = to.buffer.tailroom();
    Pool& pool = any_of(pools_);
    Lease room;
    const auto act = [&] {
      room = to.buffer.reserve(*pool, bytes);
      return static_cast<bool>(room);
    };
    if (!unless_refused(to.buffer, pool, 0, act)) return;
    expect(room.size() >= bytes, "less room than was requested");
    const size_t windows = to.buffer.window_count();
    if (tail >= bytes) {
      const std::span<const std::byte> last = to.buffer.window(windows - 1);
      expect(room.data() == last.data() + last.size() && room.size() == tail, "the room does not continue the buffer");
    }
    std::string text;
    write(room, text, room.size());
    const size_t used =
        byte() % 4 == 0 ? 0 : up_to(std::min(room.size(), kMaxObjectBytes - std::min(kMaxObjectBytes, to.text.size())));
    room.truncate(used);
    text.resize(used);
    to.buffer.append(std::move(room));
    expect(to.buffer.window_count() == windows + (used > 0 && tail < bytes),
           "what was reserved is no part of its window");
    to.text += text;
    to.exclusive.append(used, 'x');
  }
  void write_typed() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (to.text.size() > kMaxObjectBytes / 2) return;
    Pool& pool = any_of(pools_);
    std::string text, exclusive;
    uint64_t texts = 0;
    const uint64_t before = copied_bytes;
    bool ok = true;
    {
      Appender out(to.buffer, *pool, byte() % 2 ? 8 + byte() : 1024);
      const auto put = [&](size_t size, bool little) {
        const std::string value = fresh_text(size);
        uint64_t number = 0;
        for (size_t i = 0; i < size; ++i) number = number << 8 | static_cast<uint8_t>(value[little ? size - 1 - i : i]);
        text += value;
        exclusive.append(size, 'x');
        return number;
      };
      for (size_t writes = byte() % 8; writes > 0; --writes) {
        switch (byte() % 12) {
          case 0:
            out.u8(static_cast<uint8_t>(put(1, false)));
            break;
          case 1:
            out.u16be(static_cast<uint16_t>(put(2, false)));
            break;
          case 2:
            out.u24be(static_cast<uint32_t>(put(3, false)));
            break;
          case 3:
            out.u32be(static_cast<uint32_t>(put(4, false)));
            break;
          case 4:
            out.u64be(put(8, false));
            break;
          case 5:
            out.u16le(static_cast<uint16_t>(put(2, true)));
            break;
          case 6:
            out.u24le(static_cast<uint32_t>(put(3, true)));
            break;
          case 7:
            out.u32le(static_cast<uint32_t>(put(4, true)));
            break;
          case 8:
            out.u64le(put(8, true));
            break;
          case 9: {
            const std::string piece = fresh_text(any_size() % 3000);
            out.text(piece);
            text += piece;
            exclusive.append(piece.size(), 'x');
            texts += piece.size();
            break;
          }
          case 10: {
            ModelledView& from = any_of(objects_.views);
            if (from.text.size() > 5000) break;
            text += from.text;
            exclusive.append(from.text.size(), from.exclusive);
            out.view(from.view.clone());
            break;
          }
          default:
            out.commit();
        }
      }
      ok = out.ok();
    }
    may_copy_ = copied_bytes - before;
    expect(ok ? may_copy_ == texts : may_copy_ <= texts, "an appender copied something else");
    const size_t written = to.buffer.size() - std::min(to.buffer.size(), to.text.size());
    expect(ok ? written == text.size() : written <= text.size(), "an appender wrote another number of bytes");
    to.text += text.substr(0, written);
    to.exclusive += exclusive.substr(0, written);
  }
  void append_copy() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const std::string text = fresh_text(any_size());
    if (to.text.size() + text.size() <= kMaxObjectBytes) append_text(to, std::as_bytes(std::span(text)));
  }
  void append_itself() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (to.buffer.empty() || to.text.size() > kMaxObjectBytes / 2) return;
    append_text(to, to.buffer.window(byte() % to.buffer.window_count()));
  }

  void trim_front() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t count = part_of(to.text.size());
    to.buffer.trim_front(count);
    to.text.erase(0, count);
    to.exclusive.erase(0, count);
  }
  void truncate() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t count = to.text.size() - part_of(to.text.size());
    to.buffer.truncate(count);
    to.text.resize(count);
    to.exclusive.resize(count);
  }
  void split_front() {
    ModelledBuffer& from = any_of(objects_.buffers);
    const size_t count = up_to(from.text.size());
    ModelledBuffer front{from.buffer.split_front(count), from.text.substr(0, count), from.exclusive.substr(0, count)};
    expect(front.buffer.size() == count, "split_front took another number of bytes");
    from.text.erase(0, count);
    from.exclusive.erase(0, count);
    store(std::move(front));
  }
  void clear() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (byte() % 4 != 0) return;
    to.buffer.clear();
    to.text.clear();
    to.exclusive.clear();
  }
  void clone() {
    ModelledBuffer& from = any_of(objects_.buffers);
    share(from, 0, from.text.size());
    ModelledBuffer copy{from.buffer.clone(), from.text, from.exclusive};
    store(std::move(copy));
  }
  void clone_part() {
    ModelledBuffer& from = any_of(objects_.buffers);
    const auto [offset, count] = any_part(from);
    share(from, offset, count);
    ModelledBuffer copy{from.buffer.clone(offset, count), from.text.substr(offset, count),
                        from.exclusive.substr(offset, count)};
    store(std::move(copy));
  }
  // The windows that a part touches may no longer be writable.
  static void share(ModelledBuffer& modelled, size_t offset, size_t count) {
    size_t at = 0;
    for (std::span<const std::byte> window : modelled.buffer.windows()) {
      if (count > 0 && at < offset + count && offset < at + window.size()) {
        const auto begin = modelled.exclusive.begin() + static_cast<ptrdiff_t>(at);
        std::replace(begin, begin + static_cast<ptrdiff_t>(window.size()), 'x', '-');
      }
      at += window.size();
    }
  }
  struct Part {
    size_t offset, count;
  };
  Part any_part(const ModelledBuffer& of) {
    const size_t offset = up_to(of.text.size());
    return {offset, up_to(of.text.size() - offset)};
  }
  void deep_clone() {
    ModelledBuffer& from = any_of(objects_.buffers);
    Pool& pool = any_of(pools_);
    std::optional<Buffer> copy;
    const auto act = [&] {
      copy = from.buffer.deep_clone(*pool);
      return copy.has_value();
    };
    if (!unless_refused(from.buffer, pool, from.text.size(), act)) return;
    expect(copy->window_count() == (from.text.size() + kMaxChunkBytes - 1) / kMaxChunkBytes, "a copy in small pieces");
    store({*std::move(copy), from.text, std::string(from.text.size(), 'x')});
  }
  // Replaces some buffer, or is added at the end.
  void store(ModelledBuffer&& modelled) {
    ModelledBuffer& to = any_of(objects_.buffers);
    byte() % 4 == 0 ? static_cast<void>(to = std::move(modelled)) : add_buffer(to, modelled, byte() % 4 == 0);
  }
  void move_assign() {
    if (byte() % 2 != 0) return;
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledBuffer& from = any_of(objects_.buffers);
    to.buffer = std::move(from.buffer);
    if (&to == &from) return;
    to.text = std::exchange(from.text, {});
    to.exclusive = std::exchange(from.exclusive, {});
  }
  // Writes to all writable windows. check() verifies that nothing else changes.
  void write_windows() {
    ModelledBuffer& to = any_of(objects_.buffers);
    size_t offset = 0;
    for (size_t i = 0; i < to.buffer.window_count(); ++i) {
      const std::span<std::byte> window = to.buffer.writable_window(i);
      if (!window.empty()) {
        expect(window.data() == to.buffer.window(i).data() && window.size() == to.buffer.window(i).size(),
               "a writable window is another than the readable one");
        const std::string text = fresh_text(window.size());
        std::memcpy(window.data(), text.data(), text.size());
        to.text.replace(offset, text.size(), text);
      }
      offset += to.buffer.window(i).size();
    }
  }

  void copy_out() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const size_t offset = up_to(from.text.size() + 2);
    std::string to(up_to(from.text.size() + 2), 0);
    const size_t copied = from.buffer.copy_out(offset, std::as_writable_bytes(std::span(to)));
    may_copy_ = copied;
    const std::string expected = offset < from.text.size() ? from.text.substr(offset, to.size()) : "";
    expect(copied == expected.size() && to.compare(0, copied, expected) == 0, "copy_out gave something else");
  }
  // Whether a part is in one window, or is empty.
  static bool in_one_window(const Buffer& buffer, Part part) {
    size_t at = 0;
    for (std::span<const std::byte> window : buffer.windows()) {
      if (part.offset < at + window.size()) return part.offset + part.count <= at + window.size();
      at += window.size();
    }
    return true;
  }
  void fetch() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const Part part = any_part(from);
    std::string scratch(part.count + byte() % 2, 0);
    const std::span<const std::byte> bytes =
        from.buffer.fetch(part.offset, part.count, std::as_writable_bytes(std::span(scratch)));
    const bool copied = part.count > 0 && bytes.data() == reinterpret_cast<const std::byte*>(scratch.data());
    expect(copied == !in_one_window(from.buffer, part), "fetch copied for nothing");
    may_copy_ = copied ? part.count : 0;
    check_text(bytes, std::string_view(from.text).substr(part.offset, part.count), "fetch gave something else");
  }
  void apply() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const Part part = any_part(from);
    size_t at = part.offset;
    from.buffer.apply(part.offset, part.count, [&](std::span<const std::byte> piece) {
      expect(!piece.empty() && piece.size() <= part.offset + part.count - at, "a piece is empty or too long");
      if (problem_.empty()) check_text(piece, std::string_view(from.text).substr(at, piece.size()), "a piece is wrong");
      at += piece.size();
    });
    expect(at == part.offset + part.count, "apply left something out");
    if (byte() % 4 != 0) return;
    may_copy_ = from.text.size();
    expect(from.buffer.to_string() == from.text, "to_string gave something else");
  }
  void find() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    // Often a part of the text, sometimes with a wrong byte at its end.
    const size_t offset = up_to(from.text.size());
    std::string text = byte() % 8 == 0 ? fresh_text(byte() % 4) : from.text.substr(offset, byte() % 80);
    if (!text.empty() && byte() % 4 == 0) ++text.back();
    const size_t start = byte() % 2 ? 0 : up_to(from.text.size() + 2);
    expect(from.buffer.find(text, start) == from.text.find(text, start), "a text is found elsewhere");
    expect(from.buffer.starts_with(text) == from.text.starts_with(text), "starts with something else");
    const char c = text.empty() ? '\0' : text[0];
    expect(from.buffer.find(static_cast<std::byte>(c), start) == from.text.find(c, start), "a byte is found elsewhere");
  }
  void compare() {
    const ModelledBuffer& a = any_of(objects_.buffers);
    const ModelledBuffer& b = any_of(objects_.buffers);
    expect((a.buffer <=> b.buffer) == (a.text <=> b.text), "another order");
    expect((a.buffer == b.buffer) == (a.text == b.text), "equal or not");
    expect(a.buffer == a.text && (a.buffer == b.text) == (a.text == b.text), "equal to a text or not");
  }
  void checksum() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const size_t offset = up_to(from.text.size());
    uint64_t sum = 0;
    for (size_t i = offset; i < from.text.size(); ++i) {
      sum += static_cast<uint64_t>(static_cast<uint8_t>(from.text[i])) << ((i - offset) % 2 ? 0 : 8);
    }
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    expect(from.buffer.checksum(offset) == sum, "another checksum");
  }
  void read_typed() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const size_t offset = up_to(from.text.size() + 2);
    Cursor cursor(from.buffer, offset);
    bool ok = offset <= from.text.size();
    size_t at = ok ? offset : 0;
    for (size_t reads = byte() % 6; reads > 0; --reads) {
      static constexpr size_t kSizes[] = {1, 2, 3, 4, 8, 2, 3, 4, 8};
      const size_t kind = byte() % std::size(kSizes), size = kSizes[kind];
      const bool little = kind > 4;
      uint64_t expected = 0;
      ok = ok && size <= from.text.size() - at;
      if (ok) {
        for (size_t i = 0; i < size; ++i) {
          expected = expected << 8 | static_cast<uint8_t>(from.text[at + (little ? size - 1 - i : i)]);
        }
        at += size;
      }
      const uint64_t values[] = {
          kind == 0 ? cursor.u8() : 0u,    kind == 1 ? cursor.u16be() : 0u, kind == 2 ? cursor.u24be() : 0u,
          kind == 3 ? cursor.u32be() : 0u, kind == 4 ? cursor.u64be() : 0u, kind == 5 ? cursor.u16le() : 0u,
          kind == 6 ? cursor.u24le() : 0u, kind == 7 ? cursor.u32le() : 0u, kind == 8 ? cursor.u64le() : 0u};
      expect(values[kind] == expected, "a cursor read something else");
    }
    expect(cursor.ok() == ok && cursor.position() == at, "a cursor is somewhere else");
    expect(cursor.remaining() == from.text.size() - at, "a cursor has another number of bytes before it");
  }
  void fill_iovecs() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    std::vector<iovec> iovecs(byte() % 12);
    const size_t filled = from.buffer.fill_iovecs(iovecs);
    expect(filled == std::min(iovecs.size(), from.buffer.window_count()), "another number of iovecs");
    for (size_t i = 0; i < filled; ++i) {
      const std::span<const std::byte> window = from.buffer.window(i);
      expect(iovecs[i].iov_base == window.data() && iovecs[i].iov_len == window.size(), "an iovec is no window");
    }
  }
  // How many bytes of a part are not writable.
  static size_t read_only_bytes(Buffer& buffer, Part part) {
    size_t at = 0, bytes = 0;
    for (const Window& window : buffer.*revealed(BufferWindows())) {
      const size_t begin = std::max(at, part.offset), end = std::min(at + window.size, part.offset + part.count);
      if (begin < end && !window.writable()) bytes += end - begin;
      at += window.size;
    }
    return bytes;
  }
  // After make_writable, bytes of a part that were not writable are exclusive copies.
  static std::string exclusive_when_writable(Buffer& buffer, std::string exclusive, Part part) {
    size_t at = 0;
    for (const Window& window : buffer.*revealed(BufferWindows())) {
      const size_t begin = std::max(at, part.offset), end = std::min(at + window.size, part.offset + part.count);
      if (begin < end && !window.writable()) exclusive.replace(begin, end - begin, end - begin, 'x');
      at += window.size;
    }
    return exclusive;
  }
  void make_writable() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const Part part = any_part(to);
    std::string exclusive = exclusive_when_writable(to.buffer, to.exclusive, part);
    Pool& pool = any_of(pools_);
    const auto act = [&] { return to.buffer.make_writable(*pool, part.offset, part.count); };
    if (!unless_refused(to.buffer, pool, read_only_bytes(to.buffer, part), act)) return;
    expect(read_only_bytes(to.buffer, part) == 0, "not everything was made writable");
    to.exclusive = std::move(exclusive);
  }
  void write_at() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const Part part = any_part(to);
    const std::string text = fresh_text(part.count);
    std::string exclusive = exclusive_when_writable(to.buffer, to.exclusive, part);
    Pool& pool = any_of(pools_);
    const auto act = [&] { return to.buffer.write_at(*pool, part.offset, std::as_bytes(std::span(text))); };
    if (!unless_refused(to.buffer, pool, read_only_bytes(to.buffer, part) + part.count, act)) return;
    to.text.replace(part.offset, part.count, text);
    to.exclusive = std::move(exclusive);
  }
  void pull_up() {
    ModelledBuffer& to = any_of(objects_.buffers);
    Part part = any_part(to);
    if (part.count == 0) return;
    const bool in_place = in_one_window(to.buffer, part);
    Pool& pool = any_of(pools_);
    std::span<const std::byte> bytes;
    const auto act = [&] {
      bytes = to.buffer.pull_up(*pool, part.offset, part.count);
      return !bytes.empty();
    };
    if (!unless_refused(to.buffer, pool, in_place ? 0 : part.count, act)) return;
    check_text(bytes, std::string_view(to.text).substr(part.offset, part.count), "pull_up gave something else");
    expect(in_one_window(to.buffer, part), "what was pulled up is not contiguous");
    if (!in_place) to.exclusive.replace(part.offset, part.count, part.count, 'x');
  }
  void fill_in_place() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const Part part = any_part(to);
    std::vector<Buffer::InOut> pieces(byte() % 8 == 0 ? byte() % 8 : to.buffer.window_count());
    size_t touched = 0;
    to.buffer.apply(part.offset, part.count, [&](std::span<const std::byte>) { ++touched; });
    const bool possible = touched <= pieces.size() && read_only_bytes(to.buffer, part) == 0;
    const size_t filled = to.buffer.fill_in_place(part.offset, part.count, pieces);
    expect(filled == (possible ? touched : 0), "another number of pieces");
    size_t at = part.offset;
    for (size_t i = 0; i < filled; ++i) {
      const std::string text = fresh_text(pieces[i].bytes);
      expect(pieces[i].in == pieces[i].out, "a piece is not in place");
      std::memcpy(pieces[i].out, text.data(), text.size());
      to.text.replace(at, text.size(), text);
      at += text.size();
    }
    expect(filled == 0 || at == part.offset + part.count, "the pieces are not the part");
  }
  // The bytes of the windows, but of each chunk no more than it has.
  static size_t reached_bytes(const WindowChain& windows) {
    std::map<const Chunk*, size_t> chunks;
    for (const Window& window : windows) chunks[window.chunk] += window.size;
    size_t bytes = 0;
    for (const auto& [chunk, size] : chunks) bytes += std::min(size, chunk_capacity(*chunk));
    return bytes;
  }
  void measure() {
    const ModelledBuffer& of = any_of(objects_.buffers);
    const Buffer::Pinned pinned = of.buffer.pinned();
    const WindowChain& windows = of.buffer.*revealed(BufferWindows());
    expect(pinned.bytes - pinned.wasted == reached_bytes(windows), "pinned or wasted wrongly");
    size_t headroom = 0, tailroom = 0;
    if (!windows.empty()) {
      const Window &first = windows.front(), &last = windows.back();
      if (chunk_writable(first.chunk)) headroom = first.offset;
      if (chunk_writable(last.chunk)) tailroom = chunk_capacity(*last.chunk) - last.offset - last.size;
    }
    expect(of.buffer.headroom() == headroom && of.buffer.tailroom() == tailroom, "another head- or tailroom");
  }

  // Memory of the program's own, in separate blocks, so that a sanitizer detects each use after its release.
  void adopt_lease() {
    ModelledLease& to = any_of(objects_.leases);
    const size_t size = any_size() % 5000;
    to.lease = Lease::adopt(new std::byte[size], size, &BufferProgram::release, this);
    ++adopted_;
    write(to.lease, to.text, size);
  }
  void adopt_view() {
    ModelledView& to = any_of(objects_.views);
    const std::string text = fresh_text(any_size() % 5000);
    std::byte* memory = new std::byte[text.size()];
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), memory);
    to = {View::adopt(memory, text.size(), &BufferProgram::release, this), text, 'r'};
    ++adopted_;
  }
  static void release(void* program, std::byte* data, size_t) {
    delete[] data;
    ++static_cast<BufferProgram*>(program)->released_;
  }

  void settle() {
    ModelledBuffer& to = any_of(objects_.buffers);
    expect(to.buffer.pinned_bytes() >= reached_bytes(to.buffer.*revealed(BufferWindows())),
           "less is pinned than there is");
    if (!to.buffer.compact(*any_of(pools_))) return;
    may_copy_ = to.text.size();
    to.exclusive.assign(to.exclusive.size(), 'x');
    expect(to.buffer.window_count() == 1, "settled bytes lie in several windows");
    const size_t alone = tier_bytes(tier_for(to.text.size()));
    expect(to.buffer.pinned_bytes() == alone, "settled bytes do not lie in the smallest tier, alone");
  }

  void change_pool() { current_ = byte() % (pools_.size() + 1); }
  void age_and_trim() {
    Pool& pool = any_of(pools_);
    switch (byte() % 4) {
      case 0:
        for (Pool& each : pools_) each->take_remote_frees();
        all_at_home_ = true;
        return;
      case 1:
        pool->trim(number());
        return;
      default:
        return pool->age();
    }
  }

  // The invariants after each step.

  void check() {
    ranges_.clear();
    chunks_.clear();
    block_bytes_ = 0;
    for (ModelledBuffer& modelled : objects_.buffers) check_buffer(modelled);
    for (ModelledLease& modelled : objects_.leases) {
      check_text(modelled.lease.bytes(), modelled.text, "a lease's bytes changed");
      add_range(modelled.lease.bytes(), true);
      add_chunk((modelled.lease.*revealed(LeaseChunk())).get());
    }
    for (const ModelledView& modelled : objects_.views) {
      check_text(modelled.view.bytes(), modelled.text, "a view's bytes changed");
      add_range(modelled.view.bytes(), false);
      add_chunk((modelled.view.*revealed(ViewChunk())).get());
    }
    check_ranges();
    check_chunks();
  }
  void check_ranges() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    // The range so far that ends last, of all and of the writable ones.
    const std::byte* end = nullptr;
    const std::byte* writable_end = nullptr;
    for (const Range& range : ranges_) {
      expect(range.begin >= (range.writable ? end : writable_end), "a writable range is somebody else's too");
      end = std::max(end, range.end);
      if (range.writable) writable_end = std::max(writable_end, range.end);
    }
  }
  void check_chunks() {
    std::sort(chunks_.begin(), chunks_.end());
    size_t held = 0;  // Bytes of the pools' chunks.
    for (size_t i = 0, next = 0; i < chunks_.size(); i = next) {
      while (next < chunks_.size() && chunks_[next] == chunks_[i]) ++next;
      expect(chunks_[i]->refs.load(std::memory_order_relaxed) == next - i,
             "a chunk has too many or too few references");
      if (chunks_[i]->home) held += chunk_capacity(*chunks_[i]);
    }
    const size_t out = pools_[0]->out_bytes() + pools_[1]->out_bytes();
    expect(out >= held, "a chunk is in use and at home");
    // Blocks of windows are from the pools too, or from the heap.
    const bool nobodys = out > held + block_bytes_;
    if (std::exchange(all_at_home_, false)) expect(!nobodys, "a chunk is out, and nobody has it");
  }
  void check_buffer(ModelledBuffer& modelled) {
    Buffer& buffer = modelled.buffer;
    expect(buffer.size() == modelled.text.size(), "a buffer's size is wrong");
    expect(buffer.empty() == modelled.text.empty(), "a buffer is empty, or not");
    expect((buffer.window_count() == 0) == modelled.text.empty(), "an empty buffer has windows");
    const WindowChain& windows = buffer.*revealed(BufferWindows());
    block_bytes_ += windows.block_bytes();
    size_t offset = 0, count = 0;
    for (const Window& window : windows) {
      const size_t size = window.size;
      expect(size > 0, "a window is empty");
      expect(offset + size <= modelled.text.size(), "the windows are more than the size");
      if (!problem_.empty()) return;
      check_text({window.data(), size}, std::string_view(modelled.text).substr(offset, size),
                 "a buffer's bytes changed");
      const bool writable = window.writable();
      const std::string_view exclusive = std::string_view(modelled.exclusive).substr(offset, size);
      // All marks of a window are equal or '-', except for a sole view's and for what was added beside it.
      expect(writable || exclusive.find('x') == std::string_view::npos, "bytes that nobody shares are not writable");
      expect(!writable || exclusive.find('r') == std::string_view::npos, "read-only memory is writable");
      if (count < 4) expect(buffer.writable_window(count).empty() == !writable, "writable_window disagrees");
      add_range({window.data(), size}, writable);
      add_chunk(window.chunk);
      offset += size;
      ++count;
    }
    expect(offset == modelled.text.size(), "the windows are less than the size");
    expect(count == buffer.window_count(), "another number of windows");
  }
  void add_chunk(const Chunk* chunk) {
    if (chunk) chunks_.push_back(chunk);
  }
  void check_text(std::span<const std::byte> bytes, std::string_view text, std::string_view what) {
    expect(bytes.size() == text.size() && (text.empty() || std::memcmp(bytes.data(), text.data(), text.size()) == 0),
           what);
  }
  void add_range(std::span<const std::byte> bytes, bool writable) {
    if (!bytes.empty()) ranges_.push_back({bytes.data(), bytes.data() + bytes.size(), writable});
  }

  std::span<const uint8_t> program_;
  size_t at_ = 0;
  size_t steps_ = 0;
  size_t operation_ = 0;
  size_t may_copy_ = 0;
  uint32_t next_byte_ = 1;
  std::string problem_;
  size_t current_ = 0;  // Which pool is the thread's; the number after the last one stands for none.
  std::array<Pool, 2> pools_;
  std::unique_ptr<FilePool> files_;  // Made when it is first used.
  Objects objects_;
  std::vector<Range> ranges_;
  std::vector<const Chunk*> chunks_;  // Of all windows, one for each reference.
  size_t block_bytes_ = 0;            // The buffers' own.
  bool all_at_home_ = false;          // This step took the remote frees.
  size_t adopted_ = 0;
  size_t released_ = 0;
};

}  // namespace sluice::test
