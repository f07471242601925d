import CGTK
import Dipper
import Foundation

final class StatusLine {
    let box: UnsafeMutablePointer<GtkWidget>
    private let title: OpaquePointer?
    private let place: OpaquePointer?
    private let screen: OpaquePointer?
    private let fast: OpaquePointer?
    private let slow: OpaquePointer?
    private let memory: OpaquePointer?
    /// The current texts of the labels, so that unchanged labels are not set again.
    private var texts: [OpaquePointer: String] = [:]

    init?() {
        guard let box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 10) else { return nil }
        self.box = box
        gtk_widget_add_css_class(box, "status")
        title = Self.label(in: box, "title")
        place = Self.label(in: box, "quiet")
        if let place { gtk_widget_set_hexpand(Self.widget(place), 1) }
        screen = Self.label(in: box, "quiet")
        fast = Self.label(in: box, "queue")
        slow = Self.label(in: box, "queue")
        memory = Self.label(in: box, "quiet")
    }

    func update(_ grid: PhotoGrid, _ cache: ImageCache) {
        let counts = cache.data.queueCounts
        let visible = grid.visible.count
        set(title, grid.photographs[grid.cursor].title)
        set(place, "\(Self.grouped(grid.cursor + 1)) of \(Self.grouped(grid.photographs.count))")
        set(screen, "on screen \(grid.completeCount) of \(visible)")
        set(fast, Self.queue("fast", "#5cc98b", running: counts.fastRunning, waiting: counts.fastWaiting))
        set(slow, Self.queue("slow", "#6aa5ee", running: counts.slowRunning, waiting: counts.slowWaiting))
        set(memory, "\(cache.memoryCount) in memory, \(cache.memorySize >> 20) MB")
    }

    private static func queue(_ name: String, _ color: String, running: Int, waiting: Int) -> String {
        let dot = "<span foreground='\(running > 0 ? color : "#5a616b")'>●</span>"
        func bright(_ number: Int) -> String { "<span foreground='#ffffff'>\(number)</span>" }
        return "\(dot) \(name)  \(bright(running)) running  \(bright(waiting)) waiting"
    }

    /// Returns a number with separators between thousands, such as 12,345.
    private static func grouped(_ number: Int) -> String {
        number.formatted(.number.locale(Locale(identifier: "en_US")))
    }

    private func set(_ label: OpaquePointer?, _ text: String) {
        guard let label, texts[label] != text else { return }
        texts[label] = text
        gtk_label_set_markup(label, text)
    }

    private static func label(in box: UnsafeMutablePointer<GtkWidget>, _ style: String) -> OpaquePointer? {
        guard let label = gtk_label_new(nil) else { return nil }
        gtk_widget_add_css_class(label, style)
        gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), label)
        gtk_label_set_xalign(OpaquePointer(label), 0)
        return OpaquePointer(label)
    }

    private static func widget(_ label: OpaquePointer) -> UnsafeMutablePointer<GtkWidget> {
        UnsafeMutablePointer(label)
    }
}
