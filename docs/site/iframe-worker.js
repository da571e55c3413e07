// Browsers start no worker in a page that was opened from a folder, and the search of the site is one.
// There, its script runs in a hidden frame instead, which has the one method and the one event that the site uses.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = inside.document.createElement("script")
      script.src = url
      this.frame = new Promise(resolve => { script.onload = () => resolve(inside) })
      inside.document.body.append(script)
    }
    async postMessage(data) {
      (await this.frame).dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
