import CCurl
import Foundation

/// The beginning and the end of transfers.
extension CurlPool {
    func send(_ transfer: CurlTransfer) {
        guard !transfer.isOver else { return }
        let request = transfer.request
        // Refuses names and values that would break out of their line in the request.
        guard request.method.isHeaderName, request.headers.isWellFormed,
            request.proxyAuthorization?.isHeaderValue != false
        else {
            return transfer.end(.failure(.invalidHeader))
        }
        let now = ContinuousClock.now
        let deadline = transfer.connectDeadline ?? now + configuration.connectTimeout
        transfer.connectDeadline = deadline
        transfer.firstBegun = transfer.firstBegun ?? now
        // Without a kept connection and without addresses libcurl would be set up in vain.
        let lacksAddresses = transfer.missingNames.contains { resolver.addresses(of: $0.host) == nil }
        if lacksAddresses, !mayHaveConnection(on: transfer.route) { return lookUp(transfer) }
        guard let handle = idleHandles.popLast() ?? makeHandle() else {
            return transfer.end(.failure(.transport.with(detail: "libcurl lacks memory or an option")))
        }
        transfer.begun = now
        transfer.handle = handle
        active[handle] = transfer
        guard setUp(handle, for: transfer, connectTimeout: now.duration(to: deadline)),
            curl_multi_add_handle(multi, handle) == CURLM_OK
        else { return stop(transfer, .transport.with(detail: "libcurl refuses the transfer")) }
    }

    /// Sets the options of one transfer. Returns `false` if libcurl refuses one.
    private func setUp(
        _ handle: UnsafeMutableRawPointer, for transfer: CurlTransfer, connectTimeout: Duration
    ) -> Bool {
        let request = transfer.request
        // With TLS, libcurl waits for the first connection, which all transfers share if it speaks HTTP/2. Without TLS
        // there is no HTTP/2.
        let shares = queue == .fast && request.url.scheme?.lowercased() == "https"
        addFields(of: request, to: transfer)
        addAddresses(to: transfer)
        CurlOptions.setContext(Unmanaged.passUnretained(transfer).toOpaque(), on: handle)
        _ = dipper_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, transfer.errorBuffer)
        let codes = [
            // By hand: an optional text would be copied first.
            request.url.absoluteString.withCString { dipper_curl_set_string(handle, CURLOPT_URL, $0) },
            transfer.route.proxy.withCString { dipper_curl_set_string(handle, CURLOPT_PROXY, $0) },
            // Zero would select libcurl's default of five minutes.
            dipper_curl_set_long(handle, CURLOPT_CONNECTTIMEOUT_MS, max(1, connectTimeout.milliseconds)),
            dipper_curl_set_long(handle, CURLOPT_PIPEWAIT, shares ? 1 : 0),
            dipper_curl_set_long(handle, CURLOPT_FRESH_CONNECT, transfer.needsNewConnection ? 1 : 0),
            dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, transfer.headerList),
            dipper_curl_set_list(handle, CURLOPT_PROXYHEADER, transfer.proxyHeaderList),
            dipper_curl_set_list(handle, CURLOPT_RESOLVE, transfer.addressList),
        ]
        return codes.allSatisfy { $0 == CURLE_OK } && setMethod(request, on: handle)
            && CurlOptions.setIdentity(
                configuration, isOffered: configuration.offersIdentity(to: request), on: handle)
            && (request.tls.map { CurlOptions.setTLS($0, on: handle) } ?? true)
    }

    private func addFields(of request: TransferRequest, to transfer: CurlTransfer) {
        for field in request.headers.fields {
            // libcurl drops a field without a value unless it is written with a semicolon.
            let line = field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            transfer.headerList = line.withCString { curl_slist_append(transfer.headerList, $0) }
        }
        if let value = request.proxyAuthorization {
            transfer.proxyHeaderList = curl_slist_append(nil, "Proxy-Authorization: \(value)")
        }
    }

    /// Gives libcurl the addresses that are known. libcurl asks for missing ones: see ``CurlTransfer/mayResolve()``.
    private func addAddresses(to transfer: CurlTransfer) {
        for name in transfer.route.names {
            guard let addresses = transfer.addresses[name.host] ?? resolver.addresses(of: name.host) else { continue }
            transfer.addresses[name.host] = addresses
            let list = addresses.map { $0.text.contains(":") ? "[\($0.text)]" : $0.text }.joined(separator: ",")
            transfer.addressList = curl_slist_append(transfer.addressList, "+\(name.host):\(name.port):\(list)")
        }
    }

    private func setMethod(_ request: TransferRequest, on handle: UnsafeMutableRawPointer) -> Bool {
        let isPlain = request.method == "GET" && request.body == nil
        // HTTPGET resets what the previous request has left on the handle.
        var codes = [
            dipper_curl_set_long(handle, CURLOPT_HTTPGET, 1),
            dipper_curl_set_string(handle, CURLOPT_CUSTOMREQUEST, isPlain ? nil : request.method),
        ]
        if let body = request.body {
            codes.append(dipper_curl_set_off(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)))
            body.withUnsafeBytes { bytes in
                let start = bytes.bindMemory(to: CChar.self).baseAddress
                codes.append(dipper_curl_set_string(handle, CURLOPT_COPYPOSTFIELDS, start))
            }
        } else if request.method == "HEAD" {
            codes.append(dipper_curl_set_long(handle, CURLOPT_NOBODY, 1))
        }
        return codes.allSatisfy { $0 == CURLE_OK }
    }

    private func makeHandle() -> UnsafeMutableRawPointer? {
        guard let handle = curl_easy_init() else { return nil }
        if CurlOptions.set(configuration, sockets: sockets, on: handle) { return handle }
        curl_easy_cleanup(handle)
        return nil
    }

    // MARK: Name look-ups

    /// Starts to look up the names that libcurl needs; the transfer begins again when their addresses are known.
    private func lookUp(_ transfer: CurlTransfer) {
        guard transfer.beginLookup() else {
            return transfer.end(.failure(.hostNotFound.with(detail: "libcurl does not take the addresses")))
        }
        looking[ObjectIdentifier(transfer)] = transfer
        lookUpNext(transfer)
    }

    private func lookUpNext(_ transfer: CurlTransfer) {
        guard let name = transfer.missingNames.first?.host else { return }
        transfer.ticket = resolver.resolve(name) { [weak self, weak transfer] answer in
            guard let self, let transfer else { return }
            self.post { if $0.lookedUp(transfer, name, answer) { $0.begin(transfer) } }
        }
    }

    /// Takes the result of a look-up. Returns `true` if all names are known and the transfer may begin.
    private func lookedUp(_ transfer: CurlTransfer, _ name: String, _ answer: HostLookups.Answer) -> Bool {
        guard looking[ObjectIdentifier(transfer)] != nil, transfer.missingNames.first?.host == name else {
            return false
        }
        transfer.ticket = nil
        switch answer {
        case .failure(let error):
            stop(transfer, error)
            return false
        case .success(let addresses):
            transfer.addresses[name] = addresses
            guard transfer.missingNames.isEmpty else {
                lookUpNext(transfer)
                return false
            }
            looking[ObjectIdentifier(transfer)] = nil
            return true
        }
    }

    // MARK: Pausing

    func pause(_ transfer: CurlTransfer, _ handle: UnsafeMutableRawPointer, _ isThrottled: Bool) {
        let code = curl_easy_pause(handle, isThrottled ? CURLPAUSE_RECV : CURLPAUSE_CONT)
        // When a transfer resumes, libcurl delivers the bytes it has kept. If the transfer refuses them it is over, and
        // only this return code says so. Before there is a connection libcurl has nothing to pause
        // (CURLE_BAD_FUNCTION_ARGUMENT): `CurlOptions` pauses the transfer at its first byte.
        if code != CURLE_OK, code != CURLE_BAD_FUNCTION_ARGUMENT { ended(transfer, handle, code) }
    }

    // MARK: Completion

    func takeEnded() -> Bool {
        var any = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = active[handle]
            else { continue }
            any = true
            ended(transfer, handle, message.pointee.data.result)
        }
        return any
    }

    private func ended(_ transfer: CurlTransfer, _ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
        if transfer.needsAddresses {
            release(transfer)
            return lookUp(transfer)
        }
        if code == CURLE_ABORTED_BY_CALLBACK, transfer.needsNewConnection {
            release(transfer)
            return send(transfer)
        }
        let metrics = metrics(of: transfer)
        transfer.readStatus()
        if code == CURLE_OK || transfer.hasSaidEnough {
            // `end` still reads the status from the handle, so the handle is released afterwards.
            transfer.end(.success(()), metrics: metrics)
            release(transfer)
        } else {
            let error = CurlErrors.error(code, handle, of: transfer)
            release(transfer)
            transfer.end(.failure(error), metrics: metrics)
        }
    }

    /// Ends a transfer with an error, whether it runs, waits for a look-up or has not begun.
    func stop(_ transfer: CurlTransfer, _ error: DipperError) {
        let metrics = metrics(of: transfer)
        looking[ObjectIdentifier(transfer)] = nil
        if let ticket = transfer.ticket { resolver.forget(ticket) }
        transfer.ticket = nil
        release(transfer)
        transfer.end(.failure(error), metrics: metrics)
    }

    private func metrics(of transfer: CurlTransfer) -> TransferMetrics {
        guard let handle = transfer.handle, let first = transfer.firstBegun, let last = transfer.begun else {
            return TransferMetrics()
        }
        return CurlMetrics.read(handle, earlier: last - first)
    }

    private func release(_ transfer: CurlTransfer) {
        guard let handle = transfer.handle else { return }
        transfer.disconnect()
        transfer.handle = nil
        active[handle] = nil
        curl_multi_remove_handle(multi, handle)
        _ = dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, nil)
        _ = dipper_curl_set_list(handle, CURLOPT_PROXYHEADER, nil)
        _ = dipper_curl_set_list(handle, CURLOPT_RESOLVE, nil)
        _ = dipper_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, nil)
        for list in [transfer.headerList, transfer.proxyHeaderList, transfer.addressList] { curl_slist_free_all(list) }
        transfer.headerList = nil
        transfer.proxyHeaderList = nil
        transfer.addressList = nil
        CurlOptions.setContext(nil, on: handle)
        // A handle keeps the body it has sent, and the keys of an origin, so it is freed.
        let isKept = idleHandles.count < 64 && transfer.request.body == nil && transfer.request.tls == nil
        if isKept { idleHandles.append(handle) } else { curl_easy_cleanup(handle) }
    }
}
