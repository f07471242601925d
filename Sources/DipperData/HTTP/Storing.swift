/// The rules for what a private cache may keep of the answer to a GET (RFC 9111, section 3).
enum Storing {
    static func mayStore(status: Int, request: HTTPHeaders, response: HTTPHeaders) -> Bool {
        // mutant HTTPCaching|StoredAnswer: `status != 206, status != 304 else` => `status != 304 else`
        guard (200...599).contains(status), status != 206, status != 304 else { return false }
        guard !CacheControl(request: request).noStore else { return false }
        let control = CacheControl(response: response)
        if control.mustUnderstand {
            // A cache that knows the status may keep the answer in spite of `no-store` (section 5.2.2.3).
            guard understood.contains(status) else { return false }
            // mutant HTTPCaching: `} else if control.noStore {` => `} else if control.noStore, status != 200 {`
        } else if control.noStore {
            return false
        }
        // No later request would match the answer.
        // mutant Variant: `ains("*") else` => `ains("**") else`
        guard !response.varying.contains("*") else { return false }
        // Fields that concern the connection, but were not read, would be kept.
        guard !response.fieldList("Connection").isCut else { return false }

        if control.isPublic || control.isPrivate || Freshness.isExplicit(in: response, control) { return true }
        guard Freshness.heuristicStatuses.contains(status) else { return false }
        return Freshness.successes.contains(status) || !Validators(response).isEmpty
    }

    /// Returns whether an answer that may be kept may also be stored where others read it. A stricter rule than that of
    /// RFC 9111 for shared caches: an answer that sets cookies is not shared either.
    static func mayShare(response: HTTPHeaders) -> Bool {
        !CacheControl(response: response).isPrivate && !response.varying.contains { $0.lowercased() == "cookie" }
            && !response.fields.contains { ["set-cookie", "set-cookie2"].contains($0.name.lowercased()) }
    }

    /// Returns the fields to keep. Removes fields of the connection, of a proxy and those that `no-cache` names
    /// (section 3.1). Removes cookies as well: a cache does not need them, and other requests must not see them.
    static func fields(of response: HTTPHeaders) -> HTTPHeaders {
        let listed = response.namedByConnection + CacheControl(response: response).noCacheFields
        let named = Set(listed.lazy.filter { !connectionFields.contains($0) })
        return response.removing {
            // mutant HTTPCaching|StoredAnswer: ` || $0 == "set-cookie" || $0 == "set-cookie2"` => ``
            connectionFields.contains($0) || named.contains($0) || $0 == "set-cookie" || $0 == "set-cookie2"
        }
    }

    /// Returns the lower-cased names of the fields that concern the connection alone.
    static func excludedNames(of response: HTTPHeaders) -> Set<String> {
        connectionFields.union(response.namedByConnection)
    }

    private static let connectionFields: Set = [
        "connection", "keep-alive", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    /// The final statuses of RFC 9110 that are kept unchanged, and those of RFC 6585 and RFC 7725.
    private static let understood: Set = Set([200, 201, 202, 203, 204, 205, 300, 301, 302, 303, 307, 308, 421, 422])
        .union(400...417).union([426, 428, 429, 431, 451]).union(500...505).union([511])
}
