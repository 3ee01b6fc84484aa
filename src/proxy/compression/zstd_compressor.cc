#include <zstd.h>

#include <array>
#include <memory>
#include <utility>

#include "proxy/compression/compressor.h"

namespace sluice {

namespace {

// A window of 128 KiB and tables in proportion, regardless of the level.
constexpr std::array<std::pair<ZSTD_cParameter, int>, 3> kMemoryParameters = {
    {{ZSTD_c_windowLog, 17}, {ZSTD_c_hashLog, 15}, {ZSTD_c_chainLog, 15}}};

class ZstdCompressor final : public Compressor {
 public:
  ~ZstdCompressor() override { ZSTD_freeCCtx(context_); }

  bool begin(uint32_t level) override {
    if (!context_) context_ = ZSTD_createCCtx();
    if (!context_ || ZSTD_isError(ZSTD_CCtx_reset(context_, ZSTD_reset_session_only)) ||
        !set(ZSTD_c_compressionLevel, static_cast<int>(level)))
      return false;
    for (const auto& [parameter, value] : kMemoryParameters) {
      if (!set(parameter, value)) return false;
    }
    return true;
  }

  size_t memory_bytes() const override { return ZSTD_sizeof_CCtx(context_); }

 private:
  bool set(ZSTD_cParameter parameter, int value) {
    return !ZSTD_isError(ZSTD_CCtx_setParameter(context_, parameter, value));
  }

  Result run(Step& step, Then then) override {
    const ZSTD_EndDirective directive = then == Then::kMore    ? ZSTD_e_continue
                                        : then == Then::kFlush ? ZSTD_e_flush
                                                               : ZSTD_e_end;
    ZSTD_inBuffer in{step.in.data(), step.in.size(), 0};
    ZSTD_outBuffer out{step.out.data(), step.out.size(), 0};
    const size_t left = ZSTD_compressStream2(context_, &out, &in, directive);
    if (ZSTD_isError(left)) return Result::kFailed;
    step.in = step.in.subspan(in.pos);
    step.out = step.out.subspan(out.pos);
    const bool done = step.in.empty() && (then == Then::kMore || left == 0);
    return done ? Result::kDone : Result::kNeedsRoom;
  }

  ZSTD_CCtx* context_ = nullptr;
};

}  // namespace

std::unique_ptr<Compressor> make_zstd_compressor() { return std::make_unique<ZstdCompressor>(); }

}  // namespace sluice
