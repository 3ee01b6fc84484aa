# The Debian package, and what `cmake --install` has for it beyond the program:
#   proxy     the program, its man page and the completions of shells
#   service   a service of the system: units, configuration, rotation of logs
# tools/package makes the package.

set(documents "${PROJECT_BINARY_DIR}/documents")
file(MAKE_DIRECTORY "${documents}")
set(made_documents "")

# sluice_document(<file> <folder> <name> <shell command>): installs what a command of the program prints.
function(sluice_document file folder name command)
  add_custom_command(OUTPUT "${documents}/${file}" DEPENDS sluice
    COMMAND sh -c "'$<TARGET_FILE:sluice>' ${command} > '${documents}/${file}'" VERBATIM)
  install(FILES "${documents}/${file}" DESTINATION "${folder}" RENAME "${name}" COMPONENT proxy)
  set(made_documents ${made_documents} "${documents}/${file}" PARENT_SCOPE)
endfunction()

sluice_document(sluice.1.gz "${CMAKE_INSTALL_MANDIR}/man1" sluice.1.gz "manual | gzip -9n")
sluice_document(sluice.bash "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" sluice "completion bash")
sluice_document(sluice.zsh "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions" _sluice "completion zsh")
sluice_document(sluice.fish "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" sluice.fish "completion fish")
add_custom_target(documents ALL DEPENDS ${made_documents})

# These have their places in the system, whatever the prefix is.
set(packaging "${PROJECT_SOURCE_DIR}/packaging")
install(FILES "${packaging}/systemd/sluice.service" DESTINATION /usr/lib/systemd/system COMPONENT service)
install(FILES "${packaging}/systemd/sluice.socket" DESTINATION /usr/share/doc/sluice/examples COMPONENT service)
install(FILES "${packaging}/prometheus/sluice-alerts.yaml" DESTINATION /usr/share/doc/sluice/examples COMPONENT service)
install(FILES "${packaging}/grafana/sluice-dashboard.json" DESTINATION /usr/share/doc/sluice/examples COMPONENT service)
install(FILES "${packaging}/debian/sluice.yaml" DESTINATION /etc/sluice COMPONENT service)
install(FILES "${packaging}/debian/logrotate" DESTINATION /etc/logrotate.d RENAME sluice COMPONENT service)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION /usr/share/doc/sluice RENAME copyright COMPONENT service)
install(DIRECTORY DESTINATION /var/log/sluice COMPONENT service)

# A package fits the release of Debian whose libraries the program is linked with.
set(debian "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release debian REGEX "^VERSION_ID=")
  string(REGEX REPLACE "[^0-9]" "" debian "${debian}")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_CONTACT "The Sluice project <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "edge proxy on io_uring")
set(CPACK_PACKAGE_DESCRIPTION
"Sluice forwards TCP connections and HTTP requests, with TLS, balancing, health
checks and a memory that follows the data and not the connections. It needs
Linux 6.6 or newer.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL proxy service)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "1+deb${debian}")
set(CPACK_DEBIAN_PACKAGE_SECTION httpd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, init-system-helpers")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "logrotate")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${packaging}/debian/conffiles;${packaging}/debian/postinst;${packaging}/debian/prerm;${packaging}/debian/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
