// `@testable` needs a debug build, as `make fuzz` makes it.
#if DEBUG
    import Foundation

    @testable import DipperData

    /// What holds of every text that a server or a page sends.
    enum TextProbe {
        static func run(_ target: FuzzTarget, _ data: Data) {
            let text = String(fieldBytes: data)
            require(text.fieldBytes.elementsEqual(data), "text gives its bytes back")
            switch target {
            case .dataURL: checkDataURL("data:" + text)
            case .fields: checkFields(data)
            case .contentRange: checkRange("bytes " + text)
            case .cacheControl: checkControl(["Cache-Control": text])
            default: break
            }
        }

        private static func checkDataURL(_ text: String) {
            guard let url = DataURL(text) else {
                return require(!text.prefix { $0 != "#" }.utf8.contains(UInt8(ascii: ",")), "a comma is enough")
            }
            let type = url.mediaType
            require(type.isHeaderValue && type.contains("/"), "a media type is a field's value: \(type)")
            do throws(DipperError) {
                require(try url.body().count <= text.fieldBytes.count, "nothing becomes longer")
            } catch {
                require(error == .invalidData, "an error of data, not \(error)")
            }
        }

        private static func checkFields(_ data: Data) {
            let lines = data.split(separator: 0x0A).map { Array($0) + [0x0A] }
            var (whole, pieces) = (CurlAnswer(), CurlAnswer())
            for line in [Array("HTTP/1.1 200 OK\r\n".utf8)] + lines { line.withUnsafeBytes { pieces.take($0) } }
            (Array("HTTP/1.1 200 OK\r\n".utf8) + lines.joined()).withUnsafeBytes { whole.take($0) }
            let fields = whole.fields
            require(fields == pieces.fields && whole.size == pieces.size, "lines that come together are read alike")
            require(fields.isWellFormed, "what is read can be sent")
            for name in Set(fields.map { $0.name.lowercased() }) {
                require(fields.list(name).count <= FieldList.most, "lists end")
            }
            checkControl(fields)
            let freshness = Freshness(status: 200, headers: fields, requested: 1e9, received: 1e9, defaultLifetime: nil)
            require(!freshness.until.isNaN && !freshness.generated.isNaN, "times are numbers")
            for value in fields.values("Location") { checkLocation(value) }
        }

        private static func checkLocation(_ text: String) {
            guard let base = URL(string: "http://host.test/a/b?c"),
                case .success(let url) = Redirect.target(of: 302, headers: ["Location": text], from: base)
            else { return }
            require(url.host?.isEmpty == false, "a redirect has a host")
            require(url.absoluteString.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "a URL is visible ASCII")
            require(URL(text: url.absoluteString) == url, "a URL stays as it is: \(url)")
            let address = url.withoutFragment
            require(URLText.parts(of: address + "#").address == address, "an address stays as it is: \(address)")
        }

        private static func checkRange(_ text: String) {
            guard let range = ContentRange(text) else { return }
            require(0 <= range.first && range.first <= range.last, "a range has bytes: \(range)")
            require(range.total.map { range.last < $0 } ?? true, "a range is within the whole: \(range)")
            let again = "bytes \(range.first)-\(range.last)/\(range.total.map(String.init) ?? "*")"
            require(ContentRange(again) == range, "a range is read as it was written: \(again)")
        }

        private static func checkControl(_ fields: HTTPHeaders) {
            let (response, request) = (CacheControl(response: fields), CacheControl(request: fields))
            require(CacheControl(response: fields) == response, "a line is read alike the second time")
            require(response.noCacheFields.count <= FieldList.most, "lists end")
            for control in [response, request] {
                let times = [
                    control.maxAge, control.staleIfError, control.staleWhileRevalidate, control.minFresh,
                    control.maxStale == .infinity ? nil : control.maxStale,
                ]
                require(
                    times.allSatisfy { $0.map { (0...DeltaSeconds.most).contains($0) } ?? true }, "times are bounded")
            }
        }
    }
#endif
