import TestSupport
import Testing

@testable import Dipper

@Suite("SVG", .timeLimit(.minutes(2))) struct SVGTests {
    private static func file(_ attributes: String, _ content: String = "", before: String = "") -> Data {
        Data(
            (before + #"<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" "#
                + attributes
                + ">" + content + "</svg>").utf8)
    }

    @Test(
        "has the size of its attributes, or else of its view box, in pixels of CSS",
        arguments: [
            ("width='40' height='30'", 40, 30), ("width='40px' height=\"30.2px\"", 40, 31),
            ("width='1in' height='72pt'", 96, 96), ("width='25.4mm' height='2.54cm'", 96, 96),
            ("width='2pc' height='16'", 32, 16), ("viewBox='0 0 24 12'", 24, 12),
            ("viewBox='-1,-2,24.5,12' width='100%' height='100%'", 25, 12), ("viewBox='0 0 20 10' width='40'", 40, 20),
            ("height='5' viewBox='0 0 20 10'", 10, 5), ("", 300, 150), ("width='2em'", 300, 150),
            ("width='-3' height='x'", 300, 150), ("viewBox='0 0 0 0'", 300, 150),
            ("data-a='>' width = '7' height='8'", 7, 8),
        ])
    func size(_ attributes: String, _ width: Int, _ height: Int) throws {
        let info = try ImageInfo(Self.file(attributes))
        #expect(info.format == .svg && info.size == PixelSize(width: width, height: height) && info.hasAlpha)
    }

    @Test(
        "whose element is not complete has an incomplete header, and one without whole attributes a broken one",
        arguments: [
            ("<svg ", true), ("<svg width", true), ("<svg width='4", true),
            ("<?xml version='1.0'?><svg width='4' ", true),
            ("<!DOCTYPE svg [<!ENTITY a 'b'>", true), ("<svg width=4>", false), ("<svg width='1e300'>", false),
        ])
    func incomplete(_ text: String, _ isIncomplete: Bool) {
        do throws(DipperError) {
            _ = try ImageInfo(Data(text.utf8))
            Issue.record("the header is read")
        } catch {
            #expect(error == .undecodable && ImageInfo.isHeaderIncomplete(error) == isIncomplete)
        }
    }

    #if SVG
        private func decode(_ data: Data, _ change: (inout DecodeOptions) -> Void = { _ in }) throws(DipperError)
            -> Image
        {
            try CodecRegistry.standard.decode(data, .with(change))
        }

        @Test("is drawn at the size that is asked for, and not enlarged or reduced", arguments: ["large", "small"])
        func target(_ name: String) throws {
            let golden = try Golden("svg/shapes-\(name).rgba")
            let target = TargetSize(golden.size, .fit, allowsUpscaling: true)
            let image = try decode(Pictures.data("svg/shapes.svg")) { $0.target = target }
            let difference = try Difference(image, golden)
            #expect(difference.largest <= 1 && difference.mean < 0.5, "\(difference)")
        }

        @Test("is stretched if that is asked for, and not fitted into the size")
        func stretched() throws {
            let file = Self.file("width='10' height='10'", "<rect width='10' height='10' fill='#123456'/>")
            let image = try decode(file) {
                $0.target = TargetSize(width: 30, height: 4, .stretch, allowsUpscaling: true)
            }
            #expect(image.size == PixelSize(width: 30, height: 4) && image.isOpaque)
            #expect(image.pixels == Image.filled(with: Color(hex: 0x123456), 30, 4).pixels)
        }

        @Test("of any size is drawn small if that is asked for, and is not drawn larger than the limits allow")
        func huge() throws {
            let file = Self.file("viewBox='0 0 1e6 1e6'", "<rect width='1e6' height='1e6' fill='#123456'/>")
            let small = TargetSize(width: 64, height: 64)
            let image = try decode(file) { $0.target = small }
            #expect(image.pixels == Image.filled(with: Color(hex: 0x123456), 64, 64).pixels)
            #expect(throws: DipperError.imageTooLarge) { try decode(file) }
            #expect(throws: DipperError.imageTooLarge) {
                try decode(file) { $0.target = TargetSize(width: 100_000, height: 100_000) }
            }
            let codecs = CodecRegistry.standard
            #expect(codecs.cost(of: file, DecodeOptions(target: small), isProcessed: false) < 1 << 20)
            #expect(codecs.cost(of: file, DecodeOptions(), isProcessed: false) == .max)
        }

        private static let folder = TemporaryFolder()
        /// Attempts to read a file, or an address, into a picture that is empty otherwise.
        private static let attempts: [(String, Data)] = {
            let picture = folder.url.appendingPathComponent("secret.png")
            try? Pictures.data("png/rgb8.png").write(to: picture)
            let style = folder.url.appendingPathComponent("secret.css")
            try? Data("svg { background: red } rect { fill: red }".utf8).write(to: style)
            let other = folder.url.appendingPathComponent("secret.svg")
            try? Self.file("width='9' height='9'", "<rect id='a' width='9' height='9' fill='red'/>").write(to: other)
            let (png, css, svg) = (picture.absoluteString, style.absoluteString, other.absoluteString)
            let size = "width='9' height='9'"
            let clear = "<rect width='9' height='9' fill='none'/>"
            return [
                ("picture", file(size, "<image \(size) href='\(png)'/>")),
                ("picture by path", file(size, "<image \(size) xlink:href='\(picture.path)'/>")),
                ("picture by name", file(size, "<image \(size) href='secret.png'/>")),
                ("picture of an address", file(size, "<image \(size) href='http://127.0.0.1:9/a.png'/>")),
                ("element of another file", file(size, "<use href='\(svg)#a'/>")),
                ("another picture", file(size, "<image \(size) href='\(svg)'/>")),
                ("style", file(size, "<style>@import url('\(css)');</style>" + clear)),
                (
                    "style beside",
                    file(size, clear, before: "<?xml version='1.0'?><?xml-stylesheet type='text/css' href='\(css)'?>")
                ),
                (
                    "inclusion",
                    file(size, "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='\(svg)'/>")
                ),
                (
                    "inclusion by a query",
                    file(
                        size,
                        "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='.?../../../../../..\(other.path)'/>"
                    )
                ),
                (
                    "entity",
                    file(size, "&x;", before: "<!DOCTYPE svg [<!ENTITY x SYSTEM '\(svg)'>]>")
                ),
                (
                    "parameter entity",
                    file(size, "", before: "<!DOCTYPE svg [<!ENTITY % x SYSTEM '\(svg)'> %x;]>")
                ),
            ]
        }()

        @Test("reads no file and no address", arguments: attempts.map(\.0), [Isolation.off, .preferred])
        func closed(_ name: String, _ isolation: Isolation) throws {
            let data = try #require(Self.attempts.first { $0.0 == name }).1
            for secret in ["secret.png", "secret.css", "secret.svg"] {
                try #require(try !Data(contentsOf: Self.folder.url.appendingPathComponent(secret)).isEmpty)
            }
            do throws(DipperError) {
                let image = try decode(data) { $0.isolation = isolation }
                #expect(image.pixels.allSatisfy { $0 == 0 })
            } catch {
                #expect(error == .undecodable)
            }
        }

        private static let bombs: [(String, Data)] = {
            let size = "width='9' height='9'"
            let levels = (1...20).map { "<!ENTITY e\($0) '" + String(repeating: "&e\($0 - 1);", count: 10) + "'>" }
            let laughs = "<!DOCTYPE svg [<!ENTITY e0 'ha'>" + levels.joined() + "]>"
            let uses = (1...30).map { level in
                "<g id='g\(level)'>" + String(repeating: "<use href='#g\(level - 1)'/>", count: 10) + "</g>"
            }
            let deep = String(repeating: "<g opacity='0.5'>", count: 100_000)
            let filter = "<filter id='f'><feGaussianBlur stdDeviation='100000'/></filter>"
            return [
                ("laughs", file(size, "<desc>&e20;</desc>", before: laughs)),
                ("uses", file(size, "<g id='g0'><rect \(size)/></g>" + uses.joined() + "<use href='#g30'/>")),
                (
                    "itself",
                    file(size, "<g id='a'><use href='#a'/></g><pattern id='p'><rect fill='url(#p)'/></pattern>")
                ),
                ("depth", file(size, deep)),
                ("blur", file(size, filter + "<rect \(size) filter='url(#f)'/>")),
                ("pixels", file("width='100000' height='100000'")),
                ("one side", file("width='40000' height='1'")),
                ("numbers", file(size, "<rect width='1e308' height='1e308' transform='scale(1e308)'/>")),
            ]
        }()

        @Test("that means to take all time and memory takes no more than is allowed", arguments: bombs.map(\.0))
        func bounded(_ name: String) throws {
            let data = try #require(Self.bombs.first { $0.0 == name }).1
            do throws(DipperError) {
                _ = try decode(data) {
                    $0.limits.time = .seconds(2)
                    $0.limits.bytes = 64 << 20
                }
                #expect(["itself", "blur", "numbers"].contains(name))
            } catch {
                #expect([.undecodable, .imageTooLarge, .decoderFailed].contains(error))
                #expect(error == .imageTooLarge || !["pixels", "one side"].contains(name))
            }
        }

        @Test("with text fails in a helper, which has no fonts, with that reason")
        func text() throws {
            let data = try Pictures.data("svg/text.svg")
            let here = try decode(data) { $0.isolation = .off }
            #expect(here.size == PixelSize(width: 60, height: 20))
            let prefixed = Self.file("xmlns:s='http://www.w3.org/2000/svg'", "<!-- - --><s:text\n>a</s:text>")
            for data in [data, prefixed, Self.file("", "<text/>")] {
                do throws(DipperError) {
                    _ = try decode(data)
                    Issue.record("text is drawn")
                } catch {
                    #expect(error == .undecodable && error.detail?.contains("fonts") == true)
                }
            }
        }

        @Test("that only names text is drawn in a helper")
        func noText() throws {
            let file = Self.file(
                "width='9' height='9' xmlns:text='urn:text' text:text=':text' style='cursor:text'",
                "<!-- <text>a</text> --><rect width='9' height='9' fill='red'/><text:textual/><texts/>")
            #expect(try decode(file) { $0.isolation = .required }.isOpaque)
        }
    #endif
}
