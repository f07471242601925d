import CGTK
import Dipper

/// A long grid in a scrolled window. Only visible cells have widgets: a cell that scrolls out at one end is used again
/// for another photograph at the other end.
final class PhotoGrid: Widget {
    private struct Cell {
        let view: PhotoView
        let binding: ImageBinding
    }

    let photographs: Photographs
    let list: ListLoader
    private let cache: ImageCache
    private let scrolling: UnsafeMutablePointer<GtkAdjustment>
    private(set) var layout = GridLayout(count: 0, width: 0)
    private var cells: [Int: Cell] = [:]
    private var spare: [Cell] = []
    private var willUpdate = false
    private(set) var visible = 0..<0

    private(set) var cursor = 0

    init(_ photographs: Photographs, cache: ImageCache, scrolling: UnsafeMutablePointer<GtkAdjustment>) {
        self.photographs = photographs
        self.cache = cache
        self.scrolling = scrolling
        list = ListLoader(cache, count: photographs.count) { index in [photographs.request(at: index)] }
        super.init()
        gtk_widget_set_focusable(pointer, 1)
        Signals.connect(UnsafeMutableRawPointer(scrolling), "value-changed") { [weak self] in self?.update() }
        Signals.connect(UnsafeMutableRawPointer(scrolling), "changed") { [weak self] in self?.updateSoon() }
    }

    // MARK: Layout

    override func measure(_ axis: GtkOrientation, for other: Int) -> (minimum: Int, natural: Int) {
        if axis == GTK_ORIENTATION_HORIZONTAL { return (GridLayout.leastWidth, GridLayout.leastWidth) }
        let width = other > 0 ? other : size.width
        let height = GridLayout(count: photographs.count, width: width).height
        return (height, height)
    }

    override func layOut(width: Int, height: Int) {
        let layout = GridLayout(count: photographs.count, width: width)
        if layout != self.layout {
            self.layout = layout
            updateSoon()
        }
        for (index, cell) in cells {
            let frame = layout.frame(of: index)
            var origin = graphene_point_t(x: Float(frame.x), y: Float(frame.y))
            gtk_widget_allocate(
                cell.view.pointer, Int32(layout.cell.width), Int32(layout.cell.height), -1,
                gsk_transform_translate(nil, &origin))
        }
    }

    /// Updates the cells in the next frame, because cells must not change during a layout.
    private func updateSoon() {
        guard !willUpdate else { return }
        willUpdate = true
        Signals.tick(pointer) { [weak self] _ in
            self?.willUpdate = false
            self?.update()
            return false
        }
        gtk_widget_queue_draw(pointer)
    }

    // MARK: Scrolling

    /// Assigns cells to the visible photographs and tells the list loader which ones are visible.
    private func update() {
        let top = gtk_adjustment_get_value(scrolling)
        let now = layout.visible(from: top, to: top + gtk_adjustment_get_page_size(scrolling))
        guard now != visible else { return }
        visible = now
        // The loader comes first: it derives from the scrolling speed which photographs are worth fetching.
        list.update(visible: now)
        var leaving = cells.keys.filter { !now.contains($0) }.sorted()
        for index in now where cells[index] == nil {
            let old = leaving.popLast().flatMap { cells.removeValue(forKey: $0) }
            let cell = old ?? spare.popLast() ?? makeCell()
            cells[index] = cell
            cell.view.hasCursor = index == cursor
            gtk_widget_set_child_visible(cell.view.pointer, 1)
            list.attach(cell.binding, to: index, placeholder: .color(photographs[index].color))
        }
        for index in leaving {
            guard let cell = cells.removeValue(forKey: index) else { continue }
            list.detach(cell.binding)
            gtk_widget_set_child_visible(cell.view.pointer, 0)
            spare.append(cell)
        }
        gtk_widget_queue_allocate(pointer)
    }

    private func makeCell() -> Cell {
        let view = PhotoView()
        gtk_widget_set_parent(view.pointer, pointer)
        let options = DisplayOptions()
            .with(\.transition, .fade(.milliseconds(220)))
            .with(\.failure, .color(Color(hex: 0x5a2d2d)))
        return Cell(
            view: view,
            binding: ImageBinding(view, cache: cache, queue: MainLoop.shared.queue, options: options))
    }

    var position: Double {
        get { gtk_adjustment_get_value(scrolling) }
        set { gtk_adjustment_set_value(scrolling, newValue) }
    }
    var end: Double { max(0, gtk_adjustment_get_upper(scrolling) - gtk_adjustment_get_page_size(scrolling)) }
    var page: Double { gtk_adjustment_get_page_size(scrolling) }

    // MARK: Progress

    var completeCount: Int { visible.count { cells[$0]?.view.isComplete == true } }
    func frameCount(of index: Int) -> Int { cells[index]?.view.frameCount ?? 0 }
    var isSettled: Bool {
        !visible.isEmpty
            && visible.allSatisfy { cells[$0].map { $0.view.isComplete && $0.view.isSettled } ?? false }
    }

    func place(of index: Int, in window: UnsafeMutablePointer<GtkWidget>) -> (x: Double, y: Double) {
        let frame = layout.frame(of: index)
        var (x, y) = (0.0, 0.0)
        gtk_widget_translate_coordinates(pointer, window, Double(frame.x), Double(frame.y), &x, &y)
        return (x, y)
    }

    // MARK: Keyboard

    /// Moves the cursor to a photograph and scrolls as far as needed to show it.
    func moveCursor(to index: Int) {
        guard photographs.count > 0 else { return }
        cells[cursor]?.view.hasCursor = false
        cursor = min(max(index, 0), photographs.count - 1)
        let frame = layout.frame(of: cursor)
        let gap = Double(Style.gap)
        let (top, bottom) = (Double(frame.y) - gap, Double(frame.y + layout.cell.height) + gap)
        if top < position { position = top } else if bottom > position + page { position = bottom - page }
        cells[cursor]?.view.hasCursor = true
    }

    /// Handles a key.
    /// - Returns: Whether the key moves the cursor.
    func press(_ key: Int32) -> Bool {
        let rows = max(1, Int(page) / layout.step.y)
        switch key {
        case GDK_KEY_Left, GDK_KEY_KP_Left: moveCursor(to: cursor - 1)
        case GDK_KEY_Right, GDK_KEY_KP_Right: moveCursor(to: cursor + 1)
        case GDK_KEY_Up, GDK_KEY_KP_Up: step(-1)
        case GDK_KEY_Down, GDK_KEY_KP_Down: step(1)
        case GDK_KEY_Page_Up, GDK_KEY_KP_Page_Up: step(-rows)
        case GDK_KEY_Page_Down, GDK_KEY_KP_Page_Down, GDK_KEY_space: step(rows)
        case GDK_KEY_Home, GDK_KEY_KP_Home: moveCursor(to: 0)
        case GDK_KEY_End, GDK_KEY_KP_End: moveCursor(to: photographs.count - 1)
        default: return false
        }
        return true
    }

    /// Moves the cursor up or down by rows, in the same column if the target row has it.
    private func step(_ rows: Int) {
        let index = cursor + rows * layout.columns
        let column = cursor % layout.columns
        let last = photographs.count - 1
        if index < 0 { return moveCursor(to: column) }
        if index <= last { return moveCursor(to: index) }
        let lowest = last / layout.columns * layout.columns + column
        moveCursor(to: lowest > last ? lowest - layout.columns : lowest)
    }
}
