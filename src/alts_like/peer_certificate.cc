#include "alts_like/peer_certificate.h"

#include <openssl/asn1.h>
#include <openssl/mem.h>
#include <openssl/x509.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sluice {

namespace {

struct AlternativeNames {
  explicit AlternativeNames(const X509* certificate)
      : names(static_cast<GENERAL_NAMES*>(
            X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, /*out_idx=*/nullptr))) {}

  /// Whether there is a subjectAltName, even one that cannot be parsed.
  bool present() const { return critical != -1; }

  void append(int kind, std::vector<std::string>& to) const {
    for (size_t i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
      const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
      if (name->type != kind) continue;
      const ASN1_STRING* const text = name->d.ia5;  // The same field for URIs, DNS names and e-mail addresses.
      to.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                      static_cast<size_t>(ASN1_STRING_length(text)));
    }
  }

  int critical = 0;  // -1: there is no subjectAltName.
  bssl::UniquePtr<GENERAL_NAMES> names;
};

}  // namespace

std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> names;
  const AlternativeNames alternatives(certificate);
  for (const int kind : {GEN_URI, GEN_DNS, GEN_EMAIL}) alternatives.append(kind, names);
  if (alternatives.present()) return names;
  if (std::string common = common_name_of(certificate); !common.empty()) names.push_back(std::move(common));
  return names;
}

std::vector<std::string> dns_names_of(const X509* certificate) {
  std::vector<std::string> names;
  AlternativeNames(certificate).append(GEN_DNS, names);
  return names;
}

std::vector<std::string> uris_of(const X509* certificate) {
  std::vector<std::string> uris;
  AlternativeNames(certificate).append(GEN_URI, uris);
  return uris;
}

std::string common_name_of(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return "";
  uint8_t* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
  const bssl::UniquePtr<uint8_t> owned(text);
  return size < 0 ? "" : std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
}

}  // namespace sluice
