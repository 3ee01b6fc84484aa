#include "proxy/tls/ocsp_response.h"

#include <openssl/asn1.h>
#include <openssl/bytestring.h>
#include <openssl/digest.h>
#include <openssl/err.h>
#include <openssl/posix_time.h>
#include <openssl/x509.h>
#include <time.h>

#include <array>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/tls/posix_time_text.h"

namespace sluice {

namespace {

// id-pkix-ocsp-basic: 1.3.6.1.5.5.7.48.1.1.
constexpr uint8_t kBasic[] = {0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01};

// The allowed clock difference, of the same order as clients allow.
constexpr int64_t kSkewSeconds = 300;

constexpr CBS_ASN1_TAG field(unsigned number) { return CBS_ASN1_CONTEXT_SPECIFIC | CBS_ASN1_CONSTRUCTED | number; }

// CertID identifies a certificate.
struct CertId {
  const EVP_MD* digest;
  CBS issuer_name_hash, issuer_key_hash, serial;
};

// SingleResponse is the status of one certificate.
struct SingleResponse {
  CertId certificate;
  int64_t this_update_s = 0;
  std::optional<int64_t> next_update_s;
};

bool read_time(CBS& from, int64_t& seconds) {
  CBS text;
  tm parts;
  return CBS_get_asn1(&from, &text, CBS_ASN1_GENERALIZEDTIME) && CBS_parse_generalized_time(&text, &parts, 0) &&
         OPENSSL_tm_to_posix(&parts, &seconds);
}

bool read_cert_id(CBS& from, CertId& id) {
  CBS sequence;
  if (!CBS_get_asn1(&from, &sequence, CBS_ASN1_SEQUENCE)) return false;
  id.digest = EVP_parse_digest_algorithm(&sequence);
  return id.digest && CBS_get_asn1(&sequence, &id.issuer_name_hash, CBS_ASN1_OCTETSTRING) &&
         CBS_get_asn1(&sequence, &id.issuer_key_hash, CBS_ASN1_OCTETSTRING) &&
         CBS_get_asn1(&sequence, &id.serial, CBS_ASN1_INTEGER) && CBS_len(&sequence) == 0;
}

bool read_single(CBS& from, SingleResponse& single) {
  CBS sequence, next;
  int has_next = 0;
  if (!CBS_get_asn1(&from, &sequence, CBS_ASN1_SEQUENCE) || !read_cert_id(sequence, single.certificate) ||
      !CBS_get_any_asn1(&sequence, nullptr, nullptr) ||  // certStatus: clients judge it.
      !read_time(sequence, single.this_update_s) || !CBS_get_optional_asn1(&sequence, &next, &has_next, field(0))) {
    return false;
  }
  if (!has_next) return true;
  int64_t seconds = 0;
  if (!read_time(next, seconds)) return false;
  single.next_update_s = seconds;
  return true;
}

// The list of responses in BasicOCSPResponse.
bool read_basic(CBS basic, CBS& responses) {
  CBS outer, data;
  return CBS_get_asn1(&basic, &outer, CBS_ASN1_SEQUENCE) && CBS_len(&basic) == 0 &&
         CBS_get_asn1(&outer, &data, CBS_ASN1_SEQUENCE) &&            // tbsResponseData
         CBS_get_optional_asn1(&data, nullptr, nullptr, field(0)) &&  // version
         CBS_get_any_asn1(&data, nullptr, nullptr) &&                 // responderID
         CBS_get_asn1(&data, nullptr, CBS_ASN1_GENERALIZEDTIME) &&    // producedAt
         CBS_get_asn1(&data, &responses, CBS_ASN1_SEQUENCE) &&
         CBS_get_asn1(&outer, nullptr, CBS_ASN1_SEQUENCE) &&  // signatureAlgorithm
         CBS_get_asn1(&outer, nullptr, CBS_ASN1_BITSTRING);   // signature
}

bool is_for(const CertId& id, const X509* certificate) {
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(certificate);
  const int serial_bytes = i2c_ASN1_INTEGER(serial, nullptr);
  std::array<uint8_t, EVP_MAX_MD_SIZE> issuer;
  unsigned issuer_bytes = 0;
  if (serial_bytes <= 0 ||
      !X509_NAME_digest(X509_get_issuer_name(certificate), id.digest, issuer.data(), &issuer_bytes)) {
    return false;
  }
  std::vector<uint8_t> number(static_cast<size_t>(serial_bytes));
  uint8_t* to = number.data();
  i2c_ASN1_INTEGER(serial, &to);
  return CBS_mem_equal(&id.serial, number.data(), number.size()) &&
         CBS_mem_equal(&id.issuer_name_hash, issuer.data(), issuer_bytes);
}

absl::Status check_times(const SingleResponse& single, int64_t now_s) {
  if (single.this_update_s > now_s + kSkewSeconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("the OCSP response is not valid before ", posix_time_text(single.this_update_s)));
  }
  if (single.next_update_s && *single.next_update_s <= now_s) {
    return absl::InvalidArgumentError(
        absl::StrCat("the OCSP response expired on ", posix_time_text(*single.next_update_s)));
  }
  return absl::OkStatus();
}

absl::Status not_a_response() {
  ERR_clear_error();
  return absl::InvalidArgumentError("expected an OCSP response in DER");
}

}  // namespace

absl::Status check_ocsp_response(std::span<const uint8_t> der, const X509* certificate, int64_t now_s) {
  CBS whole, response, status, explicit_bytes, bytes, type, basic, responses;
  CBS_init(&whole, der.data(), der.size());
  int has_bytes = 0;
  if (!CBS_get_asn1(&whole, &response, CBS_ASN1_SEQUENCE) || CBS_len(&whole) > 0 ||
      !CBS_get_asn1(&response, &status, CBS_ASN1_ENUMERATED) || CBS_len(&status) != 1 ||
      !CBS_get_optional_asn1(&response, &explicit_bytes, &has_bytes, field(0))) {
    return not_a_response();
  }
  if (const int code = CBS_data(&status)[0]; code != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the OCSP responder reported an error (responseStatus ", code, ")"));
  }
  if (!has_bytes || !CBS_get_asn1(&explicit_bytes, &bytes, CBS_ASN1_SEQUENCE) ||
      !CBS_get_asn1(&bytes, &type, CBS_ASN1_OBJECT) || !CBS_mem_equal(&type, kBasic, sizeof kBasic) ||
      !CBS_get_asn1(&bytes, &basic, CBS_ASN1_OCTETSTRING) || !read_basic(basic, responses)) {
    return not_a_response();
  }
  while (CBS_len(&responses) > 0) {
    SingleResponse single;
    if (!read_single(responses, single)) return not_a_response();
    if (is_for(single.certificate, certificate)) return check_times(single, now_s);
  }
  return absl::InvalidArgumentError("the OCSP response is for another certificate");
}

}  // namespace sluice
